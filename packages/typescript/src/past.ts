// Trust in records of any age: the certificates of each record's moment, but all revocations since.
import { type Claims, signerCertificate, unverified } from './claims.js';
import { refuseIf } from './refusal.js';
import { type Certified, type Clock, type Root, type SignerPolicy, Trust, cut } from './trust.js';

/**
 * Finds certificates by unverified claims. A forged claim can only cause refusals: everything is verified before it is
 * believed.
 */
class Index {
  /** Certificates by kid, in the order in which they were added. */
  readonly keys = new Map<string, string[]>();
  /** By a key's name: each version with the time of its first certificate. */
  readonly versions = new Map<string, Map<number, number>>();
  /** By a public key's hash: the first purpose that it was certified for, and its only one. */
  readonly first = new Map<string, { purpose: string; since: number; token: string }>();

  add(token: string, c: Claims): void {
    const kid: string = c.subjectKeyId;
    const { name, version } = cut(kid);
    if (version > 0) {
      const of = this.versions.get(name) ?? new Map<number, number>();
      this.versions.set(name, of.set(version, Math.min(of.get(version) ?? Infinity, c.iat)));
    }
    const tokens = this.keys.get(kid);
    if (tokens) tokens.push(token);
    else this.keys.set(kid, [token]);
    const before = this.first.get(c.subjectPublicKeyHash);
    if (!before || c.iat < before.since) {
      this.first.set(c.subjectPublicKeyHash, { purpose: c.purposes[0], since: c.iat, token });
    }
  }
}

/** What one pair of roots has signed at any time. Certificates are verified when they are first needed. */
export class PastTrust extends Trust {
  protected override past = true;
  private opened = new Map<string, Certified[]>();

  private constructor(policy: SignerPolicy, private readonly of: Root[], private readonly lists: string[],
    private readonly index: Index) {
    super(policy);
  }

  /**
   * Of two certificates from one second the later in the list counts. lists are revocation lists, the current one
   * first. One malformed certificate fails the whole.
   */
  static async read(roots: Root[], certificates: string[], lists: string[], policy: SignerPolicy): Promise<PastTrust> {
    refuseIf(lists.length > 1 && lists[0] === '', 'revocations_stale',
      'the history has revocation lists, but the trust bundle has none');
    const index = new Index();
    for (const token of certificates) index.add(token, await unverified(signerCertificate, token));
    const t = new PastTrust(policy, roots, lists, index);
    await t.pin(roots);
    if (lists[0]) t.revocations = await t.revoking(lists);
    return t;
  }

  /** The same with another policy. */
  async under(policy: SignerPolicy): Promise<PastTrust> {
    const t = new PastTrust(policy, this.of, this.lists, this.index);
    await t.pin(this.of);
    if (Boolean(policy.requirePostQuantum) === Boolean(this.policy.requirePostQuantum)) {
      [t.revocations, t.opened] = [this.revocations, this.opened]; // both are verified the same way
    } else if (this.lists[0]) t.revocations = await t.revoking(this.lists);
    return t;
  }

  /** Whether a key was certified by the moment, or is revoked: a thief can claim any moment. */
  async knew(kid: string, at: Clock): Promise<boolean> {
    if (this.revokes(kid)) return true;
    const { found } = await this.find(kid, at);
    return found !== undefined && found.cert.iat <= at.now;
  }

  /** A key's last certificate by the moment, and its newest version by then. */
  protected override async find(kid: string, at: Clock): Promise<{ found: Certified | undefined; newest: number }> {
    const { name, version } = cut(kid);
    let newest = 0;
    for (const [number, since] of this.index.versions.get(name) ?? []) {
      if (since <= at.now) newest = Math.max(newest, number);
    }
    const all = await this.certified(kid);
    const last = all.findLast(({ cert }) => cert.iat <= at.now) ?? all[0];
    // A certificate that has ended was retired if a later version existed.
    const retired = last && at.now - at.skew >= last.cert.exp && version < newest;
    return { found: retired ? undefined : last, newest };
  }

  private async certified(kid: string): Promise<Certified[]> {
    const known = this.opened.get(kid);
    if (known) return known;
    const tokens = [...new Set(this.index.keys.get(kid)?.toReversed())]; // each once, in its last place
    const all: Certified[] = [];
    for (const token of tokens) all.push(await this.certificate(token));
    for (const s of all) {
      const first = this.index.first.get(s.cert.subjectPublicKeyHash)!;
      if (!tokens.includes(first.token)) await this.certificate(first.token);
      s.shared = first.purpose !== s.cert.purposes[0];
    }
    all.reverse().sort((x, y) => x.cert.iat - y.cert.iat);
    if (all.length > 0) this.opened.set(kid, all);
    return all;
  }
}
