// A client of amqplib that publishes and consumes, whatever happens to its broker, until it is told to end.
// Arguments: a JSON object {url, ca, publish, queue, bind}. Each line of standard input is a command:
// {"stop": true} ends publishing; {"until": N} ends the program when N bodies were heard, or after 40 seconds.
// On standard output: how many were confirmed, now and then; at the end, all that was confirmed and heard.
"use strict";
const fs = require("fs");
const readline = require("readline");
const amqp = require("amqplib");

const how = JSON.parse(process.argv[2]);
const confirmed = [];
const heard = {};
let publishing = true, repeated = 0, broken = 0, number = 0, ending = false;

async function steadily(work) {
  while (!ending) {
    let connection;
    try {
      connection = await amqp.connect(how.url, how.ca ? { ca: [fs.readFileSync(how.ca)] } : {});
      const lost = new Promise((resolve) => connection.on("close", resolve));
      connection.on("error", () => {});
      if (await work(connection, lost) === "done") return connection.close();
    } catch (error) { /* the broker is away, or has just gone */ }
    broken += 1;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function publish(connection, lost) {
  const channel = await connection.createConfirmChannel();
  channel.on("error", () => {});
  while (publishing) {
    const body = `js-${number}`;
    const taken = new Promise((resolve) => channel.publish(
      "amq.topic", how.publish, Buffer.from(body), { persistent: true, messageId: body },
      (error) => resolve(error ? "refused" : "taken")));
    if (await Promise.race([taken, lost]) !== "taken") { repeated += 1; return "lost"; }
    confirmed.push(body);
    number += 1;
  }
  return "done";
}

async function consume(connection, lost) {
  const channel = await connection.createChannel();
  channel.on("error", () => {});
  await channel.assertQueue(how.queue, { durable: true });
  await channel.bindQueue(how.queue, "amq.topic", how.bind);
  await channel.prefetch(200);
  await channel.consume(how.queue, (message) => {
    if (message === null) return;
    const body = message.content.toString();
    heard[body] = (heard[body] || 0) + 1;
    channel.ack(message);
  });
  console.log(JSON.stringify({ bound: true }));
  await lost;
  return "lost";
}

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const asked = JSON.parse(line);
  if (asked.stop) publishing = false;
  if (asked.until) {
    const late = Date.now() + 40000;
    while (Object.keys(heard).length < asked.until && Date.now() < late)
      await new Promise((resolve) => setTimeout(resolve, 50));
    ending = true;
    const told = JSON.stringify({ confirmed, heard, repeated, broken });
    process.stdout.write(told + "\n", () => process.exit(0));  // a pipe takes it in parts
  }
}).on("close", () => process.exit(0));
setInterval(() => console.log(JSON.stringify({ confirmed: confirmed.length })), 100);
steadily(consume);
steadily(publish);
