// MQTT clients driven by a test: one JSON document a line comes in, answers and arrivals go out.
"use strict";
const mqtt = require("mqtt");
const readline = require("node:readline");
const { readFileSync } = require("node:fs");

const clients = new Map();
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

function connect({ client, port, id, clean, will, login }) {
  return new Promise((resolve, reject) => {
    const options = { clientId: id, clean, protocolVersion: 4, reconnectPeriod: 0, connectTimeout: 15000 };
    if (will) options.will = { ...will, payload: Buffer.from(will.payload, "base64") };
    if (login) Object.assign(options, {
      protocol: "mqtts", username: login.user, password: login.password, ca: readFileSync(login.trusted),
    });
    const made = mqtt.connect({ host: "127.0.0.1", port, ...options });
    clients.set(client, made);
    made.on("message", (topic, payload, packet) =>
      say({ client, topic, payload: payload.toString("base64"), qos: packet.qos, retain: packet.retain }));
    made.once("connect", (packet) => resolve(packet.sessionPresent));
    made.on("error", reject);
    made.on("close", () => reject(new Error("closed")));
  });
}

const actions = {
  connect,
  subscribe: async ({ client, topic, qos }) =>
    (await clients.get(client).subscribeAsync(topic, { qos })).map((granted) => granted.qos),
  unsubscribe: ({ client, topic }) => clients.get(client).unsubscribeAsync(topic).then(() => null),
  publish: ({ client, topic, payload, qos, retain }) =>
    clients.get(client).publishAsync(topic, Buffer.from(payload, "base64"), { qos, retain }).then(() => null),
  disconnect: ({ client }) => clients.get(client).endAsync().then(() => null),
  abort: async ({ client }) => { clients.get(client).stream.destroy(); return null; },
};

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const command = JSON.parse(line);
  try {
    say({ number: command.number, result: await actions[command.action](command) });
  } catch (error) {
    say({ number: command.number, error: String(error.message || error) });
  }
}).on("close", () => process.exit(0));
