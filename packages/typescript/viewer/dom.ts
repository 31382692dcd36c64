// Elements and texts. Every text of the file becomes a text node: nothing here parses HTML.

type Part = Node | string | undefined | false;

/** An element with attributes and children. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Record<string, string>,
  ...children: Part[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children.filter((c) => c !== undefined && c !== false));
  return e;
}

export function byId<T extends HTMLElement>(id: string): T {
  const e = document.getElementById(id);
  if (!e) throw new Error(`the page has no ${id}`);
  return e as T;
}

const LONGEST = 4000;

/** A value of the file, in the form that marks it as such. */
export const foreign = (value: unknown): HTMLElement => h('code', {}, visible(textOf(value)));

/** The same for a text that is shown whole, such as a token. */
export const whole = (text: string): HTMLElement => h('pre', { class: 'token', tabindex: '0' }, escaped(text));

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? 'absent' : JSON.stringify(value);

const visible = (text: string): string => (text.length <= LONGEST ? escaped(text)
  : `${escaped(text.slice(0, LONGEST))}… (${text.length - LONGEST} more characters)`);

/** Spells out characters that are invisible, or that change the direction or lines of a text. */
export const escaped = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu,
    (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);

/** A sentence of the page with values of the file. */
export function say(words: TemplateStringsArray, ...values: unknown[]): DocumentFragment {
  const out = document.createDocumentFragment();
  words.forEach((text, i) => {
    out.append(text);
    if (i < values.length) out.append(values[i] instanceof Node ? values[i] as Node : foreign(values[i]));
  });
  return out;
}

export const join = (parts: Node[], between: string): DocumentFragment => {
  const out = document.createDocumentFragment();
  parts.forEach((part, i) => out.append(...(i ? [between, part] : [part])));
  return out;
};

export const short = (text: unknown): string => {
  const all = textOf(text);
  return all.length <= 16 ? all : `${all.slice(0, 12)}…`;
};

/** A time in Unix milliseconds. */
export const time = (ms: unknown): string => {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? 'at no time' : date.toISOString().replace(/\.000Z$/, 'Z');
};

/** A quoted argument of a shell. */
export const quoted = (text: string): string => {
  const file = text.startsWith('-') ? `./${text}` : text;
  return /^[\w./@%+=:,-]+$/.test(file) ? file : `'${file.replaceAll("'", `'\\''`)}'`;
};
