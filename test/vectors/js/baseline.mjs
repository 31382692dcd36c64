// Samples of sessions, and the baseline that is made of those of one owner.
import { classOf, speedsOf } from './autonomy.mjs';
import { canonical } from './canonical.mjs';
import { byHostAndModel, mad, median } from './numbers.mjs';
import { hash } from './refusal.mjs';

/** What a session adds to a baseline. */
export function sampleOf(session, formulas) {
  const models = session.models.map((model) => {
    const calls = session.calls.filter((c) => c.model === model);
    const speeds = speedsOf(calls, formulas).map((s) => s.speed);
    const texts = new Map(calls.filter((c) => c.sample).map(({ sample }) => {
      const size = classOf(sample, formulas);
      return [size, { class: size, entropy: sample.entropy, compression: sample.compression }];
    }));
    const out = { ...model };
    if (speeds.length >= formulas.baseline.minCalls) out.speed = { median: median(speeds), mad: mad(speeds) };
    if (texts.size) out.texts = ascending([...texts.values()]);
    return out;
  });
  return { models: models.sort(byHostAndModel) };
}

const ascending = (texts) => texts.sort((a, b) => a.class - b.class);
const spreadOf = (values) => ({ median: median(values), spread: mad(values) });

/** Entries in groups of one key, in the order in which the keys came first. */
const groups = (entries, key) => entries.reduce((out, entry) => out.set(key(entry), [...(out.get(key(entry)) ?? []), entry]), new Map());

export function baselineOf(owner, samples, formulas) {
  const found = groups(samples.flatMap((s) => s.models).sort(byHostAndModel), ({ host, model }) => JSON.stringify([host, model]));
  const most = [...found.values()].sort((a, b) => b.length - a.length).slice(0, formulas.baseline.models);
  const models = most.map((entries) => {
    const { host, model } = entries[0];
    const out = { host, model };
    const speeds = entries.map((e) => e.speed).filter(Boolean);
    if (speeds.length) {
      const medians = speeds.map((s) => s.median);
      out.speed = { n: speeds.length, median: median(medians), spread: mad(medians) + median(speeds.map((s) => s.mad)) };
    }
    const classes = groups(entries.flatMap((e) => e.texts ?? []), (t) => t.class);
    if (classes.size) {
      out.texts = ascending([...classes].map(([size, texts]) => (
        { class: size, n: texts.length, entropy: spreadOf(texts.map((t) => t.entropy)), compression: spreadOf(texts.map((t) => t.compression)) })));
    }
    return out;
  });
  return { owner, version: formulas.version, sessions: samples.length, models: models.sort(byHostAndModel) };
}

export const baselineHash = (baseline) => hash(canonical(baseline));
