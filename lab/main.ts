/** `npm run lab -- NAME`: lists and runs the experiments. Exits with 0 only if every assertion held. */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { describeError, invalid, ShoalError } from '../src/base/errors/errors.js';
import {
  type Experiment,
  experimentNames,
  type FlagValues,
  formatReport,
  loadExperiment,
  type Report,
  runExperiment,
  withDefaults,
} from './experiment.js';
import { prepareExperiment } from './prerequisites.js';

const USAGE = `npm run lab -- NAME [--json] [flags]    run an experiment
npm run lab -- NAME --help              show its flags
npm run lab                             list the experiments

  --json        print one JSON object per line: logs, checks, measurements, and a summary
  --directories use directories as hosts even if namespaces are allowed (or SHOAL_LAB=directories)
  --engine NAME what executes the steps of the tasks: direct or grpc (or SHOAL_ENGINE=NAME)
`;

async function list(): Promise<string> {
  const lines: string[] = [];
  for (const name of await experimentNames()) {
    lines.push(`  ${name.padEnd(20)} ${(await loadExperiment(name)).description}`);
  }
  return `${USAGE}\nExperiments:\n${lines.join('\n')}\n`;
}

function help({ name, description, flags = {} }: Experiment): string {
  const lines = Object.entries(flags).map(([flag, { type, description: text, default: value }]) => {
    const left = `--${flag}${type === 'string' ? ' VALUE' : ''}`;
    return `  ${left.padEnd(20)} ${text}${value === undefined ? '' : ` (${value})`}`;
  });
  return [`${name}: ${description}`, ...lines, ''].join('\n');
}

const ENGINES = ['direct', 'grpc'];

const COMMON = {
  json: { type: 'boolean' },
  directories: { type: 'boolean' },
  engine: { type: 'string' },
  help: { type: 'boolean' },
} as const;

function parseFlags(args: readonly string[], { flags = {} }: Experiment): FlagValues {
  const options: NonNullable<ParseArgsConfig['options']> = { ...COMMON };
  for (const [flag, { type }] of Object.entries(flags)) options[flag] = { type };
  const { values } = parseArgs({ args: [...args], options, allowPositionals: false });
  return values as FlagValues;
}

async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || name.startsWith('-')) {
    process.stdout.write(await list());
    return name === undefined || name === '--help' ? 0 : 2;
  }
  let experiment: Experiment;
  let flags: FlagValues;
  try {
    experiment = await loadExperiment(name);
    flags = parseFlags(rest, experiment);
    if (flags.engine !== undefined && !ENGINES.includes(flags.engine as string))
      throw invalid(`--engine must be one of ${ENGINES.join(', ')}`);
  } catch (error) {
    process.stderr.write(`${describeError(error)}\n`);
    return 2;
  }
  if (flags.help === true) {
    process.stdout.write(help(experiment));
    return 0;
  }
  if (flags.directories === true) process.env.SHOAL_LAB = 'directories';
  // The tasks inherit it.
  if (flags.engine !== undefined) process.env.SHOAL_ENGINE = String(flags.engine);

  try {
    const log = (line: string) => process.stderr.write(`shoal: ${line}\n`);
    await prepareExperiment(experiment, { flags: withDefaults(experiment, flags), log });
  } catch (error) {
    process.stderr.write(`${error instanceof ShoalError ? `${error.code}: ` : ''}${describeError(error)}\n`);
    return 1;
  }

  const interrupt = new AbortController();
  let exitCode = 1;
  const onSignal = (signal: NodeJS.Signals) => {
    exitCode = signal === 'SIGINT' ? 130 : 143;
    // A second signal exits immediately; the lab's guard still cleans up.
    if (interrupt.signal.aborted) process.exit(exitCode);
    interrupt.abort(signal);
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);

  const json = flags.json === true;
  if (!json) process.stdout.write(`${experiment.name}: ${experiment.description}\n`);
  const report = (line: Report) =>
    process.stdout.write(`${json ? JSON.stringify(line) : formatReport(line)}\n`);
  const { held } = await runExperiment(experiment, { flags, signal: interrupt.signal, report });
  return held ? 0 : exitCode;
}

// A process that an experiment left running must not keep the runner alive.
process.exit(await main(process.argv.slice(2)));
