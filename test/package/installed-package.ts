/** Packs the package as npm would publish it, and installs it in an empty project outside the checkout. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { locateTensorFlow } from '../../src/tensorflow/native/library/locate.js';
import { type Ended, startNode } from '../setup/run-setup.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const BUNDLE = join(ROOT, 'scripts/dev/bundle.mjs');

/** A project that has the package installed. */
export class InstalledPackage {
  readonly #scratch = mkdtempSync(join(tmpdir(), 'shoal-package-'));
  /** The directory of the project. */
  readonly project = join(this.#scratch, 'project');

  install(): void {
    const stage = join(this.#scratch, 'stage');
    const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    for (const file of ['package.json', ...manifest.files] as string[])
      if (!file.startsWith('dist/')) cpSync(join(ROOT, file), join(stage, file), { recursive: true });
    // Not to the checkout's dist/: other tests may run at the same time.
    const build = ['-p', join(ROOT, 'tsconfig.build.json'), '--outDir', join(stage, 'dist')];
    execFileSync(process.execPath, [TSC, ...build], { stdio: 'inherit' });
    execFileSync(process.execPath, [BUNDLE, join(stage, 'dist')], { stdio: 'inherit' });
    const npm = (directory: string, ...args: string[]) =>
      execFileSync('npm', args, { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    const packed = npm(stage, 'pack', '--silent', '--pack-destination', this.#scratch).trim();
    mkdirSync(this.project);
    // A user has the newest version of these types; a release of them must not fail the tests.
    const { version } = JSON.parse(
      readFileSync(join(ROOT, 'node_modules/@types/node/package.json'), 'utf8'),
    ) as { readonly version: string };
    this.write(
      'package.json',
      JSON.stringify({ private: true, type: 'module', dependencies: { '@types/node': version } }),
    );
    npm(this.project, 'install', '--prefer-offline', '--no-audit', '--no-fund', join(this.#scratch, packed));
  }

  write(file: string, text: string): void {
    writeFileSync(join(this.project, file), text);
  }

  /** The output of the compiler for the tsconfig.json of a directory; empty without errors. */
  async typeCheck(directory = '.'): Promise<string> {
    return (await this.node(TSC, '-p', directory)).stdout;
  }

  node(...args: string[]): Promise<Ended> {
    return startNode(args, { SHOAL_TF_DIR: locateTensorFlow().dir }, { cwd: this.project }).ended;
  }

  remove(): void {
    rmSync(this.#scratch, { recursive: true, force: true });
  }
}
