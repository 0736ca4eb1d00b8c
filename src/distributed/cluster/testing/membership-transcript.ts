/**
 * Plays a transcript: lines with `>` are commands, lines with `#` are comments, and the rest is the output of the
 * tasks. A transcript passes when playing it reproduces its text.
 */

import { viewOf } from '../membership/membership.js';
import { membershipSettings } from '../membership/settings.js';
import type { Effect, Member, View } from '../membership/types.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { parseTaskId, type TaskId, taskId } from '../spec/task-id.js';
import { type Process, World } from './membership-world.js';

const SETTINGS = membershipSettings();

function short(task: TaskId): string {
  const { job, index } = parseTaskId(task);
  return `${job}${index}`;
}

function long(name: string): TaskId {
  const match = /^([a-z]+)(\d+)$/.exec(name);
  if (match === null) throw new Error(`"${name}" is not a task of the transcript`);
  return taskId(match[1]!, Number(match[2]));
}

function describeEffect(effect: Effect): string | undefined {
  const nameOf = ({ task, incarnation }: Member) => `${short(task)} (incarnation ${incarnation})`;
  switch (effect.type) {
    case 'joined':
      return `sees ${nameOf(effect.member)} at ${effect.member.agentAddress}`;
    case 'suspected':
      return `suspects ${nameOf(effect.member)}`;
    case 'trusted':
      return `trusts ${nameOf(effect.member)} again`;
    case 'lost':
      return `lost ${nameOf(effect.member)}: ${effect.why}`;
    case 'back': {
      const how = effect.replaced ? `replaced, at ${effect.member.agentAddress}` : 'the same incarnation';
      return `${nameOf(effect.member)} is back: ${how}`;
    }
    case 'left':
      return `${nameOf(effect.member)} left`;
    case 'epoch':
      return `epoch ${effect.epoch}`;
    case 'unproven': {
      const { entry, by } = effect.claim;
      const claimed = `${short(entry.task)} (incarnation ${entry.incarnation}) at ${entry.agentAddress}`;
      return `ignores ${short(by)} about ${claimed}: ${effect.why}`;
    }
    case 'exit':
      return effect.reason.kind === 'superseded'
        ? `EXITS, superseded by incarnation ${effect.reason.by.incarnation} at ${effect.reason.by.agentAddress}`
        : 'EXITS, removed';
    default:
      return undefined;
  }
}

export function play(script: string): string {
  const out: string[] = [];
  let world: World | undefined;
  const the = (): World => {
    if (world === undefined) throw new Error('a transcript begins with > cluster');
    return world;
  };
  const find = (label: string): Process => {
    const process = the().processes.findLast((other) => other.label === label);
    if (process === undefined) throw new Error(`process ${label} was not started`);
    return process;
  };
  const place = (name: string) => (name.includes(':') ? name : find(name).address);
  const note = (process: Process, effect: Effect, now: number) => {
    const text = describeEffect(effect);
    if (text !== undefined) out.push(`${String(now).padStart(7)} ms  ${process.label} ${text}`);
  };
  for (const line of script.split('\n')) {
    if (line.startsWith('#') || line.trim() === '') out.push(line);
    if (!line.startsWith('>')) continue;
    out.push(line);
    const [verb, ...words] = line.slice(1).trim().split(/\s+/);
    const [first = '', second = ''] = words;
    const option = (name: string) => words[words.indexOf(name) + 1 || words.length];
    switch (verb) {
      case 'cluster': {
        const jobs = words.map((word) => word.split('='));
        const spec = new ClusterSpec(
          Object.fromEntries(
            jobs.map(([job, n]) => [job, Array.from({ length: Number(n) }, (_, i) => `${job}${i}:1`)]),
          ),
        );
        const contacts = spec.tasks.map(({ id, address }) => ({ task: id, address }));
        world = new World({ contacts, chief: spec.chief, settings: SETTINGS, onEffect: note });
        break;
      }
      case 'start': {
        const [address, clock] = [option('at'), option('clock')];
        const how = { ...(address && { address }), ...(clock && { clock: Number(clock) }) };
        const process = the().start(long(first), how);
        out.push(
          `            ${process.label} is incarnation ${process.state.self.incarnation} at ${process.address}`,
        );
        break;
      }
      case 'run':
        the().run(Number(first.replace('ms', '')));
        break;
      case 'kill':
      case 'freeze':
      case 'thaw':
      case 'block':
        the()[verb](find(first));
        break;
      case 'partition':
        the().partition(place(first), place(second));
        break;
      case 'heal':
        the().heal();
        break;
      case 'leave':
        the().dispatch(find(first), { type: 'leave', now: the().now });
        find(first).condition = 'gone';
        break;
      case 'remove':
        the().dispatch(find(option('by')!), { type: 'remove', now: the().now, task: long(first) });
        break;
      case 'server':
        the().dispatch(find(first), { type: 'server', now: the().now, serverAddress: option('at')! });
        break;
      case 'claim': {
        // > claim TASK incarnation N at ADDRESS as STATUS by PROCESS to PROCESS
        const [by, to] = [find(option('by')!), find(option('to')!)];
        const status = option('as') as View['status'];
        const known = to.state.members.get(long(first)) ?? by.state.members.get(long(first));
        const { status: _, ...entry } = viewOf(known!);
        const view: View = {
          ...entry,
          incarnation: Number(option('incarnation')),
          nonce: option('incarnation') === String(entry.incarnation) ? entry.nonce : 'forged',
          agentAddress: option('at') ?? entry.agentAddress,
          beat: 1_000_000,
          left: status === 'left',
          status,
        };
        the().forge(by, to, [view]);
        break;
      }
      case 'order': {
        const refused = the().order(find(first), find(option('to')!));
        out.push(`            ${option('to')} ${refused === undefined ? 'accepts' : `refuses: ${refused}`}`);
        break;
      }
      case 'show': {
        const { state, condition } = find(first);
        out.push(`            ${first} (${condition}) epoch ${state.epoch}`);
        for (const member of state.members.values()) {
          const { task, incarnation, agentAddress, serverAddress, status } = member;
          out.push(
            `              ${short(task)} incarnation ${incarnation} ${agentAddress} server ${serverAddress} ${status}`,
          );
        }
        break;
      }
      default:
        throw new Error(`unknown command ${verb}`);
    }
  }
  return out.join('\n');
}
