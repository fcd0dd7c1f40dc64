#!/bin/sh
# serve.sh JARS PORT CONTROLLER_PORT DATA: Apache Kafka in the foreground, one KRaft node, defaults but for what one
# node needs. A fresh data folder is formatted first; how long that took is left in DATA/format_ms.
set -eu
here=$(dirname "$(readlink -f "$0")") jars=$1 port=$2 controller=$3 data=$4
mkdir -p "$data"
cat > "$data/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$data/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
PROPERTIES
# The heap and the collector of Kafka's own start script.
kafka() { exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Xmx1G -Xms1G -XX:+UseG1GC "-Dlog4j2.configurationFile=$here/log4j2.yaml" -cp "$jars/*" "$@"; }
if [ ! -f "$data/logs/meta.properties" ]; then
    began=$(date +%s%N)
    (kafka kafka.tools.StorageTool format -t StuntbrokerBenchKafkaA -c "$data/server.properties") > "$data/format.log" 2>&1
    echo $((($(date +%s%N) - began) / 1000000)) > "$data/format_ms"
fi
kafka kafka.Kafka "$data/server.properties"
