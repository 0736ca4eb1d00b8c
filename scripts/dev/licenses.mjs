// The licences of the packages of which a bundle has code.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The licences of the packages of which the bundle has code. */
export function licenses(inputs) {
  const packages = new Map();
  for (const file of inputs) {
    const [directory] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file) ?? [];
    if (directory) packages.set(directory, [...(packages.get(directory) ?? []), file]);
  }
  return [...packages].map(([directory, files]) => licenseOf(directory, files)).join('\n');
}

/** The licence file of a package, or the notices at the top of its files: the bundle has no comments. */
function licenseOf(directory, files) {
  const { name, version, license } = JSON.parse(readFileSync(join(ROOT, directory, 'package.json'), 'utf8'));
  const file = readdirSync(join(ROOT, directory)).find((entry) => /^licen[cs]e/i.test(entry));
  const notices =
    file === undefined ? files.map(noticeOf) : [readFileSync(join(ROOT, directory, file), 'utf8')];
  return `${name} ${version}, ${license}\n\n${[...new Set(notices)].map((text) => `${text.trim()}\n\n`).join('')}`;
}

function noticeOf(file) {
  const [comment] = /^(?:\/\/.*\n)*/.exec(readFileSync(join(ROOT, file), 'utf8'));
  return /copyright|licen[cs]e/i.test(comment) ? comment.replace(/^\/\/ ?/gm, '') : '';
}
