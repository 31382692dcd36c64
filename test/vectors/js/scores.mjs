// Computes every strategy, baseline and score of a file of vectors, and prints each as a line of JSON. It does not read the results that the
// file holds.
//   node scores.mjs FORMULAS VECTORS
import { readFileSync } from 'node:fs';
import { appraise } from './autonomy.mjs';
import { baselineHash, baselineOf, sampleOf } from './baseline.mjs';
import { canonicalText } from './canonical.mjs';
import { Refusal, hash } from './refusal.mjs';
import { measureSession } from './session.mjs';
import { commitment, parseStrategy } from './strategy.mjs';

const [formulasFile, vectorsFile] = process.argv.slice(2);
const source = readFileSync(formulasFile);
const formulas = JSON.parse(source);
const file = JSON.parse(readFileSync(vectorsFile, 'utf8'));

function judged({ nonce, salt, strategy }) {
  try {
    return { commitment: commitment(nonce, salt, parseStrategy(strategy)), verdict: 'ok' };
  } catch (error) {
    if (error instanceof Refusal) return { verdict: error.code };
    throw error; // a fault of this program, not of a strategy
  }
}

function made({ baseline: { owner }, samples }) {
  const baseline = baselineOf(owner, samples ?? [], formulas);
  return { baseline, baselineHash: baselineHash(baseline) };
}

function scored({ receipts, modelHosts, challenges = [], baseline }) {
  const session = measureSession(receipts, modelHosts, formulas);
  return { score: appraise(session, { formulas, challenges, baseline }), sample: sampleOf(session, formulas) };
}

const print = (value) => console.log(JSON.stringify(value));
print({ scoringVersion: formulas.version, scoringHash: hash(canonicalText(source)) });
file.strategies.map(judged).forEach(print);
file.baselines.map(made).forEach(print);
file.vectors.map(scored).forEach(print);
