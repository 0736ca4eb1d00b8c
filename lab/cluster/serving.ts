/** `shoal serve` on a lab host, which versions are published to. */
import { join } from 'node:path';
import type { LabHost, LabProcess } from '../hosts/hosts.js';
import { ROOT } from '../hosts/root.js';

const SHOAL = join(ROOT, 'bin/shoal.cjs');
const MODELS = 'models';
const [REST_PORT, PUBLISH_PORT] = [8501, 8502];
const START_MS = 120_000;

export const publishAddress = ({ address }: LabHost): string => `${address}:${PUBLISH_PORT}`;
export const restAddress = ({ address }: LabHost): string => `${address}:${REST_PORT}`;

/** Serves what is in the host's directory, at first nothing; resolves when it takes versions. */
export async function startServing(host: LabHost, model: string, token: string): Promise<LabProcess> {
  const serving = host.start(
    process.execPath,
    [
      ...[SHOAL, 'serve', `--model_name=${model}`, `--model_base_path=${host.path(MODELS, model)}`],
      ...[`--host=${host.address}`, '--port=0', `--rest_api_port=${REST_PORT}`],
      ...[`--publish_port=${PUBLISH_PORT}`, '--publish_keep=2'],
    ],
    { cwd: host.disk, env: { SHOAL_PUBLISH_TOKEN: token } },
  );
  await serving.waitFor(/REST API at/, { timeoutMs: START_MS });
  return serving;
}

/** Publishes from a host's disk; throws with what the command printed if it failed. */
export async function publishFrom(
  host: LabHost,
  directory: string,
  to: readonly LabHost[],
  token: string,
): Promise<string> {
  const args = [SHOAL, 'publish', host.path(directory), `--to=${to.map(publishAddress).join()}`];
  const { code, stdout, stderr } = await host.exec(process.execPath, args, {
    cwd: host.disk,
    env: { SHOAL_PUBLISH_TOKEN: token },
    timeoutMs: START_MS,
  });
  if (code !== 0) throw new Error(`shoal publish exited with ${code}:\n${stderr}${stdout}`);
  return stdout;
}

/** Posts to the REST API of a host, from another host. */
export async function ask(from: LabHost, to: LabHost, path: string, body: unknown): Promise<unknown> {
  const program =
    "let text = ''; process.stdin.on('data', (part) => { text += part; }).on('end', async () => {" +
    "const answer = await fetch(process.argv[1], { method: 'POST', body: text });" +
    'process.stdout.write(await answer.text()); process.exitCode = answer.ok ? 0 : 1; });';
  const url = `http://${restAddress(to)}${path}`;
  const input = JSON.stringify(body);
  const { code, stdout, stderr } = await from.exec(process.execPath, ['-e', program, url], { input });
  if (code !== 0) throw new Error(`POST ${url} failed: ${stdout}${stderr}`);
  return JSON.parse(stdout);
}
