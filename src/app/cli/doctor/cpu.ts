/** Checks the CPU's vector features. TensorFlow's x86 builds need AVX; the others only affect speed. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { run } from '../../../../scripts/setup/processes.mjs';
import { type Finding, ok, problem } from './finding.js';

/** Common feature names, and how the kernel or sysctl spells them. */
const X86 = {
  avx: 'avx',
  avx2: 'avx2',
  fma: 'fma',
  avx512: 'avx512f',
  avx512_vnni: 'avx512_vnni',
  amx: 'amx_tile',
};
const ARM = {
  neon: 'asimd',
  fp16: 'asimdhp',
  dotprod: 'asimddp',
  bf16: 'bf16',
  i8mm: 'i8mm',
  sve: 'sve',
  sve2: 'sve2',
};
const APPLE = {
  neon: 'AdvSIMD',
  fp16: 'FEAT_FP16',
  dotprod: 'FEAT_DotProd',
  bf16: 'FEAT_BF16',
  i8mm: 'FEAT_I8MM',
};

export async function checkCpu(): Promise<Finding> {
  const features = process.platform === 'darwin' ? await appleFeatures() : linuxFeatures();
  const model = cpus()[0]?.model.trim() || process.arch;
  const cores = availableParallelism();
  const details = { model, cores, features };
  const named = features.length > 0 ? features.join(' ') : 'vector features unknown';
  const summary = `${model}, ${cores} cores usable, ${named}`;
  if (process.platform === 'linux' && process.arch === 'x64' && !features.includes('avx')) {
    return problem(
      'cpu',
      `${summary}; TensorFlow needs AVX`,
      'Use a machine with AVX, or configure the hypervisor to expose it.',
      details,
    );
  }
  return ok('cpu', summary, details);
}

function linuxFeatures(): string[] {
  const info = readFileSync('/proc/cpuinfo', 'utf8');
  const words = new Set(/^(?:flags|Features)\s*:\s*(.*)$/m.exec(info)?.[1]?.split(' '));
  return namesIn(process.arch === 'arm64' ? ARM : X86, words);
}

async function appleFeatures(): Promise<string[]> {
  const { output } = await run('sysctl', ['hw.optional.arm']);
  const words = new Set(
    [...output.matchAll(/^hw\.optional\.arm\.(\w+): 1$/gm)].map(([, name]) => name ?? ''),
  );
  return namesIn(APPLE, words);
}

function namesIn(table: Readonly<Record<string, string>>, words: ReadonlySet<string>): string[] {
  return Object.entries(table).flatMap(([name, word]) => (words.has(word) ? [name] : []));
}
