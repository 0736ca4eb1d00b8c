/** Finds Python, its pip and its TensorFlow, and runs pip. */
import { dirname } from 'node:path';
import { SetupError } from './errors.mjs';
import { run } from './processes.mjs';

const PIP_HINT =
  'Install pip for it (Debian, Ubuntu: apt-get install python3-pip python3-venv; macOS: brew install python), ' +
  'or set SHOAL_PYTHON to a Python that has it.';

/** The first Python 3 found: SHOAL_PYTHON if set, else python3 or python on the PATH. */
export async function findPython({ env = process.env, signal } = {}) {
  const candidates = env.SHOAL_PYTHON ? [env.SHOAL_PYTHON] : ['python3', 'python'];
  for (const command of candidates) {
    const code = 'import sys; print(sys.executable); print("%d.%d.%d" % sys.version_info[:3])';
    const { code: exit, output } = await run(command, ['-c', code], { env, signal });
    const [executable, version] = output.trim().split('\n');
    if (exit === 0 && executable && version?.startsWith('3.')) return { command, executable, version };
  }
  throw new SetupError(
    'SHOAL_UNSUPPORTED',
    'no-python',
    `no Python 3 was found (tried ${candidates.join(', ')}); set-up fetches TensorFlow with Python's pip`,
    {
      hint:
        'Install Python 3 with pip (Debian, Ubuntu: apt-get install python3-pip python3-venv; macOS: brew install python), ' +
        'set SHOAL_PYTHON to one, or set SHOAL_TF_DIR to a folder that already holds the libraries.',
    },
  );
}

/** The version of pip of a Python; throws if it has none. */
export async function findPip(python, { env = process.env, signal } = {}) {
  const { code, output } = await run(python.executable, ['-m', 'pip', '--version'], { env, signal });
  const version = /^pip (\S+)/m.exec(output)?.[1];
  if (code === 0 && version) return version;
  throw noPip(python);
}

function noPip({ executable }) {
  return new SetupError('SHOAL_UNSUPPORTED', 'no-pip', `${executable} has no pip`, { hint: PIP_HINT });
}

/** The TensorFlow of a Python, found without importing it; undefined if it has none. */
export async function findPythonTensorFlow(python, { env = process.env, signal } = {}) {
  const code = [
    'import importlib.util, importlib.metadata as m, json',
    's = importlib.util.find_spec("tensorflow")',
    'v = None',
    'for n in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos"):',
    '  try: v = v or m.version(n)',
    '  except m.PackageNotFoundError: pass',
    'print(json.dumps([s.origin if s else None, v]))',
  ].join('\n');
  const { code: exit, output } = await run(python.executable, ['-c', code], { env, signal });
  if (exit !== 0) return undefined;
  const [origin, version] = JSON.parse(output.trim().split('\n').at(-1));
  return origin && version ? { dir: dirname(origin), version } : undefined;
}

/** Runs `pip`; a failure becomes an error with a code and a hint. */
export async function pip(python, args, { what, env = process.env, signal }) {
  const base = ['-m', 'pip', '--disable-pip-version-check', '--no-input'];
  const { code, output } = await run(python.executable, [...base, ...args], { env, signal });
  if (code !== 0 && /No module named pip/.test(output)) throw noPip(python);
  if (code !== 0) throw pipError(what, code, output);
}

const NETWORK =
  /NewConnectionError|ConnectTimeoutError|ReadTimeout|ProxyError|SSLError|Name or service not known|name resolution|Network is unreachable|Connection (?:refused|reset|aborted)|Remote end closed|IncompleteRead/i;

/** The error for a failed pip, whose cause is only visible in its output. */
function pipError(what, code, output) {
  const tail = output.trim().split('\n').slice(-6).join('\n  ');
  const message = (cause) => `${what}: ${cause}; output of pip (exit ${code}):\n  ${tail}`;
  if (/No space left on device|Errno 28/.test(output)) {
    return new SetupError('SHOAL_NO_SPACE', 'full-disk', message('the disk is full'), {
      hint: 'Free some space, or set SHOAL_CACHE to a folder on a larger disk.',
    });
  }
  if (NETWORK.test(output)) {
    return new SetupError(
      'SHOAL_UNREACHABLE',
      'no-network',
      message('the package index could not be reached'),
      {
        hint: 'Check the network, proxy and certificates (pip reads HTTPS_PROXY, PIP_INDEX_URL, PIP_CERT), then run set-up again.',
      },
    );
  }
  if (/No matching distribution|Could not find a version/.test(output)) {
    return new SetupError('SHOAL_NOT_FOUND', 'not-offered', message('no configured package index has it'), {
      hint: 'Check pip’s settings (`python3 -m pip config list`, PIP_INDEX_URL, PIP_FIND_LINKS, PIP_NO_INDEX).',
    });
  }
  return new SetupError('SHOAL_LIBRARY', 'pip-failed', message('pip failed'), {
    hint: 'Fix what pip reports, then run set-up again.',
  });
}
