/**
 * Transactional producers of KafkaJS that do what the lines of the standard input say: number, producer, verb and
 * arguments, with tabs between. Each is answered with its number and "ok" and values, or "error" and what was raised.
 * A producer does one thing after the other, and producers do not wait for each other.
 *
 * The argument names the folder in which KafkaJS is installed.
 */
"use strict";

const readline = require("node:readline");
const { setTimeout } = require("node:timers/promises");

process.env.KAFKAJS_NO_PARTITIONER_WARNING = "1";
const { Kafka, logLevel } = require(require.resolve("kafkajs", { paths: [process.argv[2]] }));

const REQUEST_TIMEOUT_MS = 1_000; // How long a lost answer takes; half a minute unless told.
const RETRY = { initialRetryTime: 20, maxRetryTime: 100, retries: 30 };
const READ_MS_MAX = 30_000;

const producers = new Map(); // name -> { producer, transaction }
const queues = new Map(); // name -> the promise of its last call

function kafka(name, bootstrap) {
  return new Kafka({
    clientId: name,
    brokers: bootstrap.split(","),
    logLevel: logLevel.NOTHING,
    connectionTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    retry: RETRY,
  });
}

/** KafkaJS leaves it to the application to end a transaction again when that may help. */
async function untilItCannot(end) {
  for (let left = RETRY.retries; ; left--) {
    try {
      return await end();
    } catch (raised) {
      if (!raised.retriable || left === 0) throw raised;
      await setTimeout(RETRY.maxRetryTime);
    }
  }
}

const verbs = {
  async open(name, bootstrap, transactionalId, timeoutMs) {
    const producer = kafka(name, bootstrap).producer({
      transactionalId,
      idempotent: true,
      maxInFlightRequests: 1,
      transactionTimeout: Number(timeoutMs),
      retry: RETRY,
    });
    producers.set(name, { producer });
    await producer.connect();
  },

  async begin(name) {
    const each = producers.get(name);
    each.transaction = await each.producer.transaction();
  },

  async send(name, topic, partition, value) {
    await producers.get(name).transaction.send({ topic, messages: [{ partition: Number(partition), value }] });
  },

  async commit(name) {
    await untilItCannot(() => producers.get(name).transaction.commit());
  },

  async abort(name) {
    await untilItCannot(() => producers.get(name).transaction.abort());
  },

  async close(name) {
    const each = producers.get(name);
    producers.delete(name);
    await each.producer.disconnect();
  },

  async read(name, bootstrap, topic, count) {
    return verbs.follow(name, bootstrap, topic, count);
  },

  /** Reads as a member of a group whose heartbeats are quick. */
  async follow(name, bootstrap, topic, count) {
    const consumer = kafka(name, bootstrap).consumer({ groupId: name, maxWaitTimeInMs: 50, heartbeatInterval: 100 });
    const values = [];
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    try {
      await new Promise((resolve, reject) => {
        const timer = globalThis.setTimeout(() => reject(new Error(`read only ${values}`)), READ_MS_MAX);
        consumer.run({
          eachMessage: async ({ message }) => {
            values.push(message.value.toString());
            if (values.length === Number(count)) {
              clearTimeout(timer);
              resolve();
            }
          },
        });
      });
    } finally {
      await consumer.disconnect();
    }
    return values;
  },
};

async function answer(number, name, verb, words) {
  let said;
  try {
    said = ["ok", ...((await verbs[verb](name, ...words)) ?? [])];
  } catch (raised) {
    said = ["error", `${raised.name}: ${raised.message}`];
  }
  process.stdout.write([number, ...said].join("\t").replaceAll("\n", " ") + "\n");
}

readline
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const [number, name, verb, ...words] = line.split("\t");
    const before = queues.get(name) ?? Promise.resolve();
    queues.set(name, before.then(() => answer(number, name, verb, words)));
  })
  .on("close", () => process.exit(0));
