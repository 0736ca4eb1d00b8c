/**
 * A fake task for tests of the launcher. TF_CONFIG contains its role, and STAND_IN a plan per task (see plan.ts). It
 * needs no TensorFlow, joins no cluster, and does not watch its launcher.
 */
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const { cluster, task } = JSON.parse(process.env.TF_CONFIG);
const name = `${task.type}-${task.index}`;
const dir = process.argv[2];
const note = (what, pid = process.pid) =>
  appendFileSync(process.env.STAND_IN_JOURNAL, `${what} ${name} ${pid}\n`);

const mark = join(dir, 'was-here');
const isAgain = existsSync(mark);
writeFileSync(mark, '');
const first = JSON.parse(process.env.STAND_IN)[name] ?? {};
const plan = isAgain ? (first.again ?? first) : first;

process.on('SIGINT', () => {
  note('signalled');
  if (plan.stubborn) return;
  console.log('leaving');
  setTimeout(() => {
    note('left');
    process.exit(task.type === 'ps' ? 0 : 130);
  }, 100);
});
const finished = process.env.SHOAL_FINISHED_WORKERS;
console.log(`up ${JSON.stringify({ address: cluster[task.type]?.[task.index], isAgain, finished })}`);
for (const line of plan.say ?? []) console.log(line);
for (const line of plan.complain ?? []) console.error(line);
if (plan.flood) process.stdout.write('x'.repeat(plan.flood));
if (plan.offspring) note('offspring', spawn('sleep', ['300'], { stdio: 'inherit' }).pid);
note('up');
const ups = () => readFileSync(process.env.STAND_IN_JOURNAL, 'utf8').match(/^up /gm).length;
while (ups() < (plan.company ?? 0)) await new Promise((tick) => setTimeout(tick, 20));
if (plan.exitAfterMs === undefined) setInterval(() => {}, 1000);
else setTimeout(() => process.exit(plan.exitCode ?? 0), plan.exitAfterMs);
