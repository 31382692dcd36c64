// node convert.mjs FILE AGENT_ID: prints a signal or a challenge contract of agent-reputation-network in the form that
// a node takes, dated now. AGENT_ID is this agent's, as `agent` in GET http://mediator.internal/v1/event. Members that
// the form lacks become part of the text.
import { readFileSync } from "node:fs";

const [file, agent] = process.argv.slice(2);
const theirs = JSON.parse(readFileSync(file, "utf8"));
const timestamp = Math.floor(Date.now() / 1000);
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const steps = (trace) => [trace].flat().join("\n");

function signal({ signal_id, origin_agent, challenge_window_hours: hours = 24, timestamp: _, signature, ...statement }) {
  return { signal_id, agent_id: agent, statement: text(statement), horizon: hours > 24 ? "long" : "short", timestamp };
}

function contract({ challenge_id, original_signal_id, counter_claim, reasoning_trace }) {
  return {
    challenge_id, original_signal_id, challenger_agent_id: agent, counter_claim: text(counter_claim),
    reasoning_trace: steps(reasoning_trace), timestamp,
  };
}

console.log(JSON.stringify(theirs.original_signal_id ? contract(theirs) : signal(theirs)));
