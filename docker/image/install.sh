#!/bin/sh
# install.sh FOLDER: installs the image's other files below FOLDER, from the scripts in the folder of this script.
set -eu
root=$1
here=$(cd "$(dirname "$0")" && pwd)
# Commands of Kafka that are not here: they say so, and name those that are.
missing="connect-distributed connect-mirror-maker connect-plugin-path connect-standalone kafka-client-metrics \
  kafka-console-share-consumer kafka-consumer-perf-test kafka-delegation-tokens kafka-delete-records kafka-dump-log \
  kafka-e2e-latency kafka-groups kafka-jmx kafka-leader-election kafka-log-dirs kafka-metadata-quorum \
  kafka-metadata-shell kafka-mirror-maker kafka-producer-perf-test kafka-reassign-partitions \
  kafka-replica-verification kafka-run-class kafka-share-consumer-perf-test kafka-share-groups \
  kafka-streams-application-reset kafka-streams-groups kafka-verifiable-consumer kafka-verifiable-producer \
  kafka-verifiable-share-consumer trogdor zookeeper-shell"

mkdir -p "$root/etc/kafka/docker" "$root/etc/confluent/docker" "$root/etc/redpanda" "$root/opt/kafka/bin" "$root/usr/bin" \
  "$root/opt/kafka/config" "$root/var/lib/kafka/data" "$root/var/lib/redpanda/data" "$root/var/lib/stuntbroker" "$root/bitnami/kafka/data" \
  "$root/kafka" "$root/tmp/kraft-combined-logs" "$root/tmp/kafka-logs" "$root/tmp/kafka"

# Start scripts of apache/kafka, cp-kafka and Redpanda.
install -m 755 "$here/run" "$root/etc/kafka/docker/run"
for script in bash-config configure ensure launch run; do
  install -m 755 "$here/confluent/$script" "$root/etc/confluent/docker/$script"
done
install -m 755 "$here/entrypoint.sh" "$root/entrypoint.sh"

# Kafka's commands, with and without .sh: links to one script, which takes the command from its own name.
install -m 755 "$here/shim" "$root/opt/kafka/bin/stuntbroker-shim"
for command in kafka-topics kafka-console-producer kafka-console-consumer kafka-consumer-groups kafka-configs kafka-transactions \
  kafka-acls kafka-broker-api-versions kafka-cluster kafka-features kafka-get-offsets kafka-storage kafka-server-start \
  kafka-server-stop zookeeper-server-start $missing; do
  ln -s stuntbroker-shim "$root/opt/kafka/bin/$command.sh"
  ln -s stuntbroker-shim "$root/opt/kafka/bin/$command"
done
printf '# Properties of the broker, one NAME=VALUE a line. Variables such as KAFKA_NUM_PARTITIONS override them.\n' \
  > "$root/opt/kafka/config/server.properties"
# Paths of commands and start scripts in bitnami/kafka and wurstmeister/kafka.
mkdir -p "$root/opt/bitnami/kafka" "$root/opt/bitnami/scripts/kafka"
ln -s /opt/kafka/bin "$root/opt/bitnami/kafka/bin"
ln -s /opt/kafka/config "$root/opt/bitnami/kafka/config"
install -m 755 "$here/bitnami/entrypoint.sh" "$root/opt/bitnami/scripts/kafka/entrypoint.sh"
ln -s /etc/kafka/docker/run "$root/opt/bitnami/scripts/kafka/run.sh"
ln -s /etc/kafka/docker/run "$root/usr/bin/start-kafka.sh"
# Commands that health checks in compose files call, and that the base image does not have.
install -m 755 "$here/nc" "$root/usr/bin/nc"
install -m 755 "$here/cub" "$root/usr/bin/cub"
ln -s /opt/kafka/bin/stuntbroker-shim "$root/usr/bin/rpk"
ln -s /opt/kafka/bin/stuntbroker-shim "$root/usr/bin/redpanda"
# Many compose files write the command as one word: ["redpanda start", "--smp 1"].
printf '#!/bin/sh\nexec redpanda start "$@"\n' > "$root/usr/bin/redpanda start"
chmod 755 "$root/usr/bin/redpanda start"
if [ -x /usr/bin/tini ]; then
  install -m 755 /usr/bin/tini "$root/usr/bin/tini"
else
  printf '#!/bin/sh\n# What tini -s -- COMMAND would start, where there was no tini to copy.\nshift 2\nexec "$@"\n' > "$root/usr/bin/tini"
  chmod 755 "$root/usr/bin/tini"
fi
# A login shell (`docker exec ... bash -l`) resets the PATH.
for command in "$root"/opt/kafka/bin/kafka-* ; do
  ln -s "/opt/kafka/bin/$(basename "$command")" "$root/usr/bin/$(basename "$command")"
done
for command in connect-distributed connect-mirror-maker connect-plugin-path connect-standalone trogdor zookeeper-server-start \
  zookeeper-shell; do
  ln -s "/opt/kafka/bin/$command" "$root/usr/bin/$command"
done
ln -s /opt/stuntbroker/bin/stuntbroker "$root/usr/bin/stuntbroker"

# When the container runs as another user, as in Kubernetes and OpenShift, the user is in group 0.
chmod -R g=u "$root/opt/kafka/config" "$root/etc/confluent" "$root/etc/kafka" "$root/etc/redpanda" "$root/var/lib" "$root/bitnami" "$root/kafka" "$root/tmp/kraft-combined-logs" "$root/tmp/kafka-logs" "$root/tmp/kafka"
# The base image's permissions of /tmp, which copying this folder would replace.
chmod 1777 "$root/tmp"
