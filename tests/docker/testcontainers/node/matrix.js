// Runs each Kafka module of Testcontainers for Node, unmodified, with the image in IMAGE; one line per module.
const fs = require("fs");
const path = require("path");
const { GenericContainer, Wait } = require("testcontainers");
const { KafkaContainer } = require("@testcontainers/kafka");
const { RedpandaContainer } = require("@testcontainers/redpanda");
const { Kafka, logLevel } = require("kafkajs");

const { IMAGE, RUN = "manual", LOGS = "logs", IMAGE7 = IMAGE, IMAGE8 = IMAGE } = process.env;
const TIMEOUT = Number(process.env.MODULE_TIMEOUT || 60) * 1000;
// KafkaContainer reads the tag as a version: below 8.0.0 with ZooKeeper, else KRaft; it throws for a tag that is none.
const major = Number((/:v?(\d+)(\.\d+)*$/.exec(IMAGE) || [])[1] || 0);
const zookeeperImage = major && major < 8 ? IMAGE : IMAGE7;
const kraftImage = major >= 7 ? IMAGE : IMAGE7;
const kraft8Image = major >= 8 ? IMAGE : IMAGE8;
const kafkaAddress = (c) => `${c.getHost()}:${c.getMappedPort(9093)}`;

const modules = {
  
  "KafkaContainer(zookeeper)": [() => new KafkaContainer(zookeeperImage), kafkaAddress],
  "KafkaContainer.withKraft(7.x)": [() => new KafkaContainer(kraftImage).withKraft(), kafkaAddress],
  "KafkaContainer(8.x, KRaft)": [() => new KafkaContainer(kraft8Image), kafkaAddress],
  RedpandaContainer: [() => new RedpandaContainer(IMAGE), (c) => c.getBootstrapServers()],
  generic: [
    () => new GenericContainer(IMAGE).withExposedPorts(9092),
    async (c) => {
      const address = `${c.getHost()}:${c.getMappedPort(9092)}`;
      // The container is told by which address its clients come: a random port cannot be known before.
      if (process.env.ADVERTISE !== "0") {
        const told = await c.exec(["stuntbroker", "advertise", address]);
        if (told.exitCode !== 0) console.error(`note: stuntbroker advertise: exit ${told.exitCode}: ${told.output.trim().split("\n").pop()}`);
      }
      return address;
    },
  ],
};

/** Commits one transaction (after one that is aborted) and reads it back with read_committed (kafkajs' default). */
async function transact(bootstrap) {
  const topic = `tc-${Date.now()}-${Math.floor(Math.random() * 1e9)}`;
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, requestTimeout: 10000, retry: { retries: 4 } });
  const admin = kafka.admin();
  const producer = kafka.producer({ transactionalId: `tx-${topic}`, idempotent: true, maxInFlightRequests: 1 });
  const consumer = kafka.consumer({ groupId: `g-${topic}`, readUncommitted: false });
  try {
    await admin.connect();
    await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] });
    await producer.connect();
    for (const value of ["aborted", "committed"]) {
      const transaction = await producer.transaction();
      await transaction.send({ topic, messages: [{ key: "k", value }] });
      await (value === "committed" ? transaction.commit() : transaction.abort());
    }
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const values = await new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("nothing read in 20 s")), 20000);
      consumer.run({ eachMessage: async ({ message }) => { clearTimeout(late); resolve([message.value.toString()]); } }).catch(reject);
    });
    if (values[0] !== "committed") throw new Error(`read ${values} instead of committed`);
  } finally {
    await Promise.allSettled([admin.disconnect(), producer.disconnect(), consumer.disconnect()]);
  }
}

async function run(name, [make, bootstrap], begin) {
  const container = make().withLabels({ "tc-matrix": RUN }).withStartupTimeout(TIMEOUT - 5000);
  const file = fs.createWriteStream(path.join(LOGS, `node-${name.replace(/[^A-Za-z0-9.]+/g, "_")}.log`));
  container.withLogConsumer((stream) => stream.on("data", (line) => file.write(line.endsWith("\n") ? line : line + "\n")));
  let up;
  const started = await container.start();
  try {
    up = (Date.now() - begin) / 1000;
    await transact(await bootstrap(started));
  } finally {
    await started.stop().catch(() => {});
    file.end();
  }
  return up;
}

(async () => {
  const parts = process.argv.slice(2);
  let failed = 0;
  for (const [name, module] of Object.entries(modules)) {
    if (parts.length && !parts.some((part) => name.includes(part))) continue;
    const begin = Date.now();
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not done after ${TIMEOUT / 1000} s`)), TIMEOUT); });
    try {
      const up = await Promise.race([(async () => run(name, module, begin))(), late]);
      console.log(`PASS node ${name} (${((Date.now() - begin) / 1000).toFixed(1)} s, up after ${up.toFixed(1)} s)`);
    } catch (fault) {
      failed++;
      console.log(`FAIL node ${name}: ${String(fault && fault.message).replace(/\s+/g, " ").slice(0, 600)} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
    }
    clearTimeout(timer);
  }
  process.exit(failed ? 1 : 0);
})();
process.on("unhandledRejection", () => {});
