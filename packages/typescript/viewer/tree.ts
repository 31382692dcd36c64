// The artifacts of a post as a tree, each above those that it rests on.
import type { Claims } from '../src/claims.js';
import { foreign, h, join, say, short, time, whole } from './dom.js';
import type { Artifact, Judged } from './report.js';

interface Kind {
  title: string;
  /** Who signs it. */
  by: string;
  says: (c: Claims) => Node;
  rests: string[];
}

const list = (values: unknown): Node => (Array.isArray(values) && values.length > 0
  ? join(values.map((v) => foreign(v)), ' ') : document.createTextNode('nothing'));

const KINDS: Record<string, Kind> = {
  agentStatement: { title: 'agent statement', by: 'the sidecar, for what the agent published', rests: ['requestProof'],
    says: (c) => say`${c.kind} ${short(c.statementHash)}, of ${c.agent}` },
  requestProof: { title: 'request proof', by: 'the sidecar, as request mediator', rests: ['capability'],
    says: (c) => say`${c.resource}, access token ${short(c.accessTokenHash)}` },
  capability: { title: 'capability', by: 'the API’s gate', says: (c) =>
    say`single use, content ${short(c.binding?.contentHash)}`,
  rests: ['deploymentCertificate', 'challenge', 'runtimeAttestation', 'sessionReceipt', 'grant'] },
  deploymentCertificate: { title: 'deployment certificate', by: 'the deployment auditor, a root', rests: [],
    says: (c) => say`deployment ${c.deploymentId}, manifest ${short(c.manifestHash)}` },
  challenge: { title: 'fresh work', by: 'the API’s gate', rests: [],
    says: (c) => say`${c.answers?.length} tasks, ${c.difficulty}` },
  runtimeAttestation: { title: 'runtime attestation', by: 'the sidecar, as runtime', rests: ['triggerReceipt'],
    says: (c) => say`runtime ${c.runtimeId}, ${c.mode}, a human could talk to the agent: ${c.humanInteractive}` },
  triggerReceipt: { title: 'trigger receipt', by: 'the trigger service', rests: ['originProof'],
    says: (c) => say`event ${short(c.eventId)}, human initiated: ${c.humanInitiated}` },
  originProof: { title: 'origin proof', by: 'the trigger service, as source verifier', rests: [], says: (c) =>
    say`${c.kind} from ${c.source}, verified by ${c.verificationMethod}, evidence ${short(c.evidenceId)}` },
  sessionReceipt: { title: 'session receipt', by: 'the sidecar, as session controller', rests: [], says: (c) =>
    say`session ${short(c.sessionId)}, prompt ${c.humanPromptPresent}, operator ${c.humanOperatorPresent}, shell ${
      c.userShellAccess}, users in its environment ${c.agentEnvironmentUserAccessible}` },
  grant: { title: 'action grant', by: 'the control plane, as authorization', rests: ['policyDecision'],
    says: (c) => say`${c.subject} may ${list(c.actions)} ${list(c.resources)}` },
  policyDecision: { title: 'policy decision', by: 'the control plane, as policy engine', rests: ['reputation'],
    says: (c) => say`${c.decision} by rule ${c.rule}, policy ${short(c.policyHash)}` },
  reputation: { title: 'reputation', by: 'the node, as appraiser', rests: [],
    says: (c) => say`${c.tier} with score ${c.score}, of ${c.agent_id}` },
};

/** What has no public key: only the gate that issued it can verify it. */
const SECRET = ['challenge', 'capability'];

/** Claims that are compared with other artifacts, with the record or with the manifest. */
const COMPARED = new Set(`actions bindingHash bindingHashes capabilityId challengeId contentHash contentHashes
  controlsHash environmentHash eventId evidenceId evidenceHash grantId inputKind inputSource kind manifestHash
  originEvidenceHash originEvidenceHashes originEvidenceId originEvidenceIds originProofHash originVerificationMethod
  originVerificationMethods payloadHash policyDecisionHashes policyDecisionIds policyHash reputationHash resource
  resources runtimeId runtimeIds sessionId source statementHash subject trigger triggerEventId triggerEventIds
  triggerKind triggerReceiptHash triggerSource triggerSources verificationMethod`.split(/\s+/));
const STATES = ['observed', 'declared', 'estimated', 'not_measured']; // of a receipt's figures
const REGISTERED = ['aud', 'exp', 'iat', 'iss', 'jti', 'observed'];

/** How a claim is known. */
function known(name: string, top: string, c: Claims, compared: Compared): string {
  if (compared(top)) {
    return Array.isArray(c.observed) && c.observed.includes(top) ? 'observed, compared' : 'compared';
  }
  if (!Array.isArray(c.observed) || REGISTERED.includes(top)) return 'signed';
  return c.observed.includes(top) || c.observed.includes(name) ? 'observed' : 'declared';
}

type Compared = (claim: string) => boolean;

/** The claims of an artifact that were compared. */
function comparedIn(post: Judged, artifact: string): Compared {
  return (claim) => post.sound.has(artifact) && COMPARED.has(claim) &&
    !(claim === 'kind' && artifact === 'agentStatement') &&
    !(['evidenceId', 'evidenceHash'].includes(claim) && !post.sound.has('policyDecision'));
}

/** All claims as a list of terms. */
export function claimList(c: Claims, compared: Compared = () => false): HTMLElement {
  const out = h('dl', {});
  const put = (name: string, value: unknown, how: string): void => {
    const when = (name === 'iat' || name === 'exp') && typeof value === 'number' ? ` (${time(value * 1000)})` : '';
    out.append(h('dt', {}, foreign(name)), h('dd', {}, foreign(value), when, ' ', h('span', { class: 'how' }, how)));
  };
  const add = (name: string, top: string, value: unknown): void => {
    const members = value !== null && typeof value === 'object' && !Array.isArray(value) ? value as Claims : {};
    const names = Object.keys(members);
    if (names.length === 2 && STATES.includes(members.state) && 'value' in members) {
      put(name, members.value, members.state.replace('_', ' '));
    } else if (names.length > 0) {
      names.forEach((n) => add(`${name}.${n}`, top, members[n]));
    } else put(name, value, known(name, top, c, compared));
  };
  for (const [name, value] of Object.entries(c)) add(name, name, value);
  return out;
}

/** What verification shows of one artifact. */
function standing(post: Judged, a: Artifact): { cls: string; text: string } {
  if (post.broken === a.name) return { cls: 'no', text: `broken here: ${post.code}` };
  if (SECRET.includes(a.name)) return { cls: 'unknown', text: 'a secret of its gate: not verified here' };
  if (post.sound.has(a.name)) return { cls: 'yes', text: 'signature and links verified' };
  return { cls: 'unknown', text: 'not verified: the chain breaks before it' };
}

/** Draws a post's artifacts. */
export function drawTree(post: Judged): HTMLElement {
  const byName = new Map(post.artifacts.map((a) => [a.name, a]));
  const drawn = new Set<string>();
  const items = (name: string): HTMLElement[] => {
    if (drawn.has(name)) return [];
    drawn.add(name);
    const a = byName.get(name);
    const below = KINDS[name]!.rests.flatMap(items);
    if (!a) return below;
    return [h('li', {}, drawArtifact(post, a), below.length > 0 && h('ul', {}, ...below))];
  };
  const out = h('ul', { class: 'tree' }, ...items('agentStatement'));
  for (const a of post.artifacts) {
    if (!drawn.has(a.name)) out.append(h('li', {}, drawArtifact(post, a)));
  }
  return out;
}

function drawArtifact(post: Judged, a: Artifact): HTMLElement {
  const kind = Object.hasOwn(KINDS, a.name) ? KINDS[a.name] : undefined;
  const { cls, text } = standing(post, a);
  const details = h('details', post.broken === a.name ? { class: 'broken' } : {},
    h('summary', {}, h('b', {}, kind?.title ?? foreign(a.name)), ' ', h('span', { class: `mark ${cls}` }, text),
      h('br', {}), a.claims && kind ? kind.says(a.claims) : 'its claims cannot be read'));
  fillOnOpen(details, () => [
    h('p', {}, 'Signed by ', kind ? `${kind.by}: issuer ` : '', foreign(a.claims?.iss), ', key ', foreign(a.kid)),
    a.claims && claimList(a.claims, comparedIn(post, a.name)),
    h('p', {}, 'The token as it was signed:'), whole(a.token),
  ]);
  return details;
}

const fillers = new WeakMap<HTMLDetailsElement, () => void>();

/** Makes the content of an element when it is opened first. */
export function fillOnOpen(details: HTMLDetailsElement, make: () => (Node | undefined | false)[]): void {
  fillers.set(details, () => {
    fillers.delete(details);
    details.append(...make().filter((n) => n !== undefined && n !== false));
  });
  details.addEventListener('toggle', () => fill(details));
}

export const fill = (details: HTMLDetailsElement): void => fillers.get(details)?.();
