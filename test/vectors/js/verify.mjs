// Judges every vector of a folder and prints one verdict a line, as JSON text. It does not read the verdicts that the files hold.
//   node verify.mjs FOLDER
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { canonical, canonicalText } from './canonical.mjs';
import { Gate, parseRequest } from './chain.mjs';
import { kinds } from './claims.mjs';
import { Book, readDocument, verifyOwn } from './disputes.mjs';
import { ratingOf, todayOf } from './rating.mjs';
import { ReceiptChain } from './receiptchain.mjs';
import { Refusal, hash } from './refusal.mjs';
import { checkReputation, reputationOf } from './reputation.mjs';
import { Trust, openOwn } from './token.mjs';
import { judge } from './trial.mjs';
import { checkPossession, checkTrace } from './verification.mjs';

const read = (name) => JSON.parse(readFileSync(join(process.argv[2], name), 'utf8'));

function verdict(judge) {
  try {
    judge();
    return 'ok';
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error; // a fault of this program, not of a vector
  }
}

function* artifacts({ vectors, skew, ...file }) {
  for (const vector of vectors) {
    const { typ, token, at = file.at, trust = file.trust, expected = file.expected[typ] } = vector;
    yield verdict(() => {
      if (kinds[typ].own) return openOwn(typ, token, Buffer.from(expected.secrets[0], 'base64url'), expected, { at, skew });
      return new Trust(trust).open(typ, token, expected, { at, skew });
    });
  }
}

function gateOf({ gate, manifest, trust, skew, at }, vector) {
  return new Gate({ ...gate, manifest: vector.manifest ?? manifest, trust: new Trust({ ...trust, revocations: vector.revoked }), clock: { at: vector.at ?? at, skew } });
}

function* chains({ vectors, ...file }) {
  for (const vector of vectors) {
    const whole = { envelope: { ...file.envelope, ...vector.envelope }, binding: vector.binding ?? file.binding };
    yield verdict(() => gateOf(file, vector).admit(parseRequest(vector.request ?? JSON.stringify(whole))));
  }
}

function* posts({ vectors, ...file }) {
  for (const vector of vectors) {
    yield verdict(() => gateOf(file, vector).authorize({ ...file, ...vector }));
  }
}

function* canonicals({ vectors }) {
  for (const vector of vectors) {
    yield verdict(() => {
      const form = canonicalText(Buffer.from(vector.input, 'base64url'));
      if (form !== vector.canonical || hash(form) !== vector.sha256) throw new Refusal(`another canonical form: ${form}`);
    });
  }
}

function* receiptChains({ vectors, ...file }) {
  const trust = new Trust(file.trust);
  for (const vector of vectors) {
    yield verdict(() => {
      const { receipts, head, session, agent, owner = file.owner, expected = file.expected, at = file.at } = vector;
      const chain = new ReceiptChain({ trust, expected, owner, session, agent, clock: { at, skew: file.skew } });
      for (const r of receipts) chain.add(typeof r === 'number' ? file.receipts[r - 1] : r);
      if (head) chain.names(head);
    });
  }
}

function* reputations({ vectors, ...file }) {
  const trust = new Trust(file.trust);
  for (const vector of vectors) {
    yield verdict(() => {
      const { log, token, at, ...of } = { ...file, ...vector };
      if (token) return checkReputation(trust.open('reputation+jwt', token, file.expected, { at, skew: file.skew }), { ...of, at });
      const follows = canonical(reputationOf(log ?? [], of));
      if (follows !== canonical(vector.reputation)) throw new Refusal(`another reputation: ${follows}`);
    });
  }
}

/** Refuses where something else follows than a vector says. */
function same(follows, wanted, what) {
  if (canonical(follows) !== canonical(wanted)) throw new Refusal(`another ${what}: ${canonical(follows)}`);
}

function* disputes({ vectors, ...file }) {
  const trust = new Trust(file.trust);
  for (const vector of vectors) {
    yield verdict(() => {
      const { kind, document, own, log = [], state, filing, trial, typ, token, at = file.at } = vector;
      if (token) return trust.open(typ, token, file.expected[typ], { at, skew: file.skew });
      if (kind) {
        const read = readDocument(kind, document);
        same(read.hash, vector.hash, 'hash');
        return own && verifyOwn(read.document);
      }
      if (trial) return same([judge(trial, false) ?? null, judge(trial, true)], [vector.early ?? null, vector.late], 'finding');
      const book = new Book(log);
      if (!filing) return same(book.state(), state, 'state');
      const { id = '', entry = null, code } = filing.document.statement === undefined ? book.file(filing, file.deadline) : book.publish(filing, file.windows);
      same([id, entry], [vector.dispute_id ?? '', vector.entry ?? null], 'answer');
      if (code) throw new Refusal(code);
    });
  }
}

function* ratings({ vectors, ...file }) {
  for (const vector of vectors) {
    yield verdict(() => {
      const follows = canonical(vector.factors ? { r_today: todayOf(vector.factors) } : ratingOf(vector.log ?? [], { ...file, ...vector }));
      if (follows !== canonical(vector.rating)) throw new Refusal(`another rating: ${follows}`);
    });
  }
}

function* verifications({ vectors, ...file }) {
  const trust = new Trust(file.trust);
  for (const { token } of vectors) yield verdict(() => trust.open('verification-result+jwt', token, file.expected, { at: file.at, skew: file.skew }));
  yield verdict(() => checkPossession(file.possession));
  yield verdict(() => checkTrace(file.trace, file.rfc6962Root));
}

const all = [
  artifacts(read('artifacts.json')), chains(read('chains.json')), posts(read('posts.json')), canonicals(read('canonical.json')), receiptChains(read('receipts.json')),
  artifacts(read('scoretokens.json')), artifacts(read('statements.json')), reputations(read('reputations.json')), ratings(read('ratings.json')),
  disputes(read('disputes.json')), verifications(read('verifications.json')),
];
for (const verdicts of all) {
  for (const v of verdicts) console.log(JSON.stringify(v));
}
