/** However the owner of a lab ends, the lab ends with it and leaves nothing behind. */
import type { Context, Experiment } from '../experiment.js';
import type { LabMode } from '../hosts/hosts.js';
import { killHard, leftovers, startOwner, waitUntilGone } from '../testing/crash.js';

export const experiment: Experiment = {
  name: 'cleanup',
  description: 'a lab leaves nothing behind when its owner exits, fails, is interrupted, or crashes',
  async run(ctx) {
    const { isolated } = await ctx.lab({ hosts: 1 });
    const asked = process.env.SHOAL_LAB as LabMode | undefined;
    const mode = asked ?? (isolated ? 'namespaces' : 'directories');
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGKILL'] as const) {
      const { child, belongings } = await startOwner(mode);
      const alive = (await leftovers(belongings)).length;
      child.kill(signal);
      const start = performance.now();
      const left = await waitUntilGone(belongings);
      ctx.measure(`from ${signal} until ${alive} things are gone`, performance.now() - start, 'ms');
      ctx.equal(`after ${signal} nothing is left`, left, []);
    }
    for (const end of ['exit', 'throw'] as const) {
      const { belongings } = await startOwner(mode, end);
      ctx.equal(`after the owner's ${end} nothing is left`, await waitUntilGone(belongings), []);
    }
    await guardAndOwner(ctx, mode);
  },
};

/** The worst case: owner and guard are killed, and the next lab has to clean up. */
async function guardAndOwner(ctx: Context, mode: LabMode): Promise<void> {
  const { child, belongings } = await startOwner(mode);
  await killHard(belongings.guardPid);
  child.kill('SIGKILL');
  await new Promise((resolve) => child.once('close', resolve));
  ctx.log(`the guard killed too, ${(await leftovers(belongings)).length} things are left`);
  const next = await ctx.lab({ hosts: 1 });
  ctx.equal('the next lab removes it', await waitUntilGone(belongings), []);
  await next.dispose();
}
