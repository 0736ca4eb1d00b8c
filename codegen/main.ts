/**
 * `npm run codegen -- [protos|ops|migration|docs|ports|dashboard …] [--check]`: writes the generated files; default: all. With --check it only
 * lists the files that differ, and exits with 1 if there are any.
 */
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { differences, type GeneratedFolder, write } from './output.js';

const GENERATORS: Readonly<Record<string, () => Promise<readonly GeneratedFolder[]>>> = {
  protos: async () => [(await import('./protos.js')).generateProtos()],
  ops: async () => [(await import('./ops.js')).generateOps()],
  migration: async () => [(await import('./migration.js')).generateMigration()],
  docs: async () => [(await import('./docs.js')).generateDocs()],
  ports: async () => [(await import('./ports.js')).generatePorts()],
  dashboard: async () => [(await import('./dashboard.js')).generateDashboard()],
};

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const args = process.argv.slice(2);
const check = args.includes('--check');
const selected = args.filter((arg) => arg !== '--check');

for (const name of selected.length > 0 ? selected : Object.keys(GENERATORS)) {
  const generate = GENERATORS[name];
  if (!generate) {
    console.error(`unknown generator ${name}; the generators are ${Object.keys(GENERATORS).join(', ')}`);
    process.exit(2);
  }
  for (const output of await generate()) {
    const differing = (check ? differences : write)(root, output);
    for (const path of differing) console.log(check ? `differs: ${path}` : `wrote ${path}`);
    if (check && differing.length > 0) process.exitCode = 1;
  }
}
