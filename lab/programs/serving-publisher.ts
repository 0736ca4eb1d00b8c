/**
 * Publishes versions of one model, one after the other, and rests after each for as long as it took. A version has the
 * files of the first by hard links, and a file of its own. One of them is damaged. Prints a line of JSON for each event.
 *
 *   serving-publisher.ts DIRECTORY HOST:PORT,… COUNT SECONDS
 */
import { cp, link, mkdir, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { publish } from '../../src/app/serving/publish/publish.js';
import { messageOf } from '../../src/base/errors/errors.js';
import { tokenSecurity } from '../../src/distributed/cluster/spec/security.js';

const [directory = '', to = '', count = '0', seconds = '0'] = process.argv.slice(2);
const targets = to.split(',');
const security = tokenSecurity(process.env.SHOAL_PUBLISH_TOKEN ?? '');
const print = (event: object) => console.log(JSON.stringify({ at: Date.now(), ...event }));
const rest = (ms: number) => new Promise((done) => setTimeout(done, ms));

async function makeVersion(version: number, isDamaged: boolean): Promise<string> {
  const [from, made] = [join(directory, '1'), join(directory, String(version))];
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const target = join(made, path.slice(from.length + 1));
    await mkdir(dirname(target), { recursive: true });
    if (isDamaged) await cp(path, target);
    else await link(path, target);
    if (isDamaged && entry.name.includes('.data-')) await truncate(target, 100);
  }
  await mkdir(join(made, 'assets.extra'), { recursive: true });
  await writeFile(join(made, 'assets.extra', 'version.txt'), String(version));
  return made;
}

const total = Number(count);
const damaged = 2 + Math.floor(total / 2);
const spacing = (1000 * Number(seconds)) / total;
for (let version = 2; version < 2 + total; version++) {
  const isDamaged = version === damaged;
  const made = await makeVersion(version, isDamaged);
  const started = performance.now();
  print({ event: 'begin', version, isDamaged });
  try {
    const result = await publish({
      directory: made,
      to: targets,
      security,
      skipsAbsent: true,
      deadlineSecs: 120,
    });
    const absent = result.targets.filter(({ outcome }) => outcome.kind === 'absent').length;
    print({ event: 'end', version, isPublished: true, absent });
  } catch (error) {
    print({ event: 'end', version, isPublished: false, absent: 0, why: messageOf(error) });
  }
  const took = performance.now() - started;
  await rest(Math.max(took, 500, spacing - took));
  print({ event: 'rested', version });
  if (version < 1 + total) await rm(made, { recursive: true });
}
// A process that was away gets the newest too.
const newest = join(directory, String(1 + total));
const { targets: all } = await publish({ directory: newest, to: targets, security, deadlineSecs: 120 });
print({ event: 'complete', lacking: all.filter(({ outcome }) => outcome.kind === 'absent').length });
