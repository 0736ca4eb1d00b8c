/** How one entry that a task hears changes its picture: of itself, and of others. */
import type { Draft } from './membership-draft.js';
import { compareIdentity, type Entry, mergeEntries } from './membership-map.js';
import { isThere, type Member, type Status } from './membership-types.js';
import { isWatched } from './membership-watch.js';

/** Takes in an entry from a peer's map, with that peer's opinion of it. */
export function learn(draft: Draft, entry: Entry, opinion: Status): void {
  if (entry.task === draft.self.task) learnOfSelf(draft, entry, opinion);
  else learnOfOther(draft, entry, opinion);
}

function learnOfSelf(draft: Draft, entry: Entry, opinion: Status): void {
  if (draft.over !== undefined) return;
  const { own } = draft;
  const order = compareIdentity(entry, own);
  if (order <= 0) {
    if (order === 0 && entry.left) {
      draft.over = { kind: 'removed' };
      draft.effects.push({ type: 'exit', reason: draft.over });
    } else if (entry.first < own.first) draft.put({ ...own, first: entry.first });
    return;
  }
  // A task that could ask nobody when it started hears of its predecessor, which is gone: step over it.
  if (!draft.settled && opinion !== 'alive') {
    // Nobody has taken note of this life's clock, so the count goes on from the predecessor's first.
    draft.rename({ ...own, first: entry.first, incarnation: entry.incarnation + 1 });
    draft.announceToAll();
    for (const contact of draft.base.contacts) draft.announce(contact);
    return;
  }
  draft.over = { kind: 'superseded', by: entry };
  draft.effects.push({ type: 'exit', reason: draft.over });
}

function learnOfOther(draft: Draft, entry: Entry, opinion: Status): void {
  const known = draft.members.get(entry.task);
  const merged = known === undefined ? entry : mergeEntries(known, entry);
  if (known !== undefined && compareIdentity(merged, known) === 0) {
    const member = draft.put({ ...known, ...merged, status: known.status });
    if (member.left && known.status !== 'left') bury(draft, member);
    return;
  }
  if (known !== undefined) supersede(draft, known, merged);
  const greeting = known === undefined || known.greeting === 'joined' ? 'joined' : 'replaced';
  const member: Member = { ...merged, status: 'suspect', lastSeen: draft.now, greeting };
  if (member.left) {
    if (known === undefined) draft.put({ ...member, status: 'left' });
    else bury(draft, member);
  } else if (opinion === 'alive') greet(draft, member);
  // Somebody holds it for dead: look for oneself before saying a word about it.
  else draft.probe(draft.put(member));
}

/** Takes in what a task said of itself: it is alive, whoever thought otherwise. */
export function markSeen(draft: Draft, entry: Entry): void {
  const known = draft.members.get(entry.task);
  if (known === undefined || compareIdentity(entry, known) > 0) {
    learnOfOther(draft, entry, 'alive');
    return;
  }
  const merged = mergeEntries(known, entry);
  if (merged.left) {
    const member = draft.put({ ...known, ...merged, status: known.status });
    if (known.status !== 'left') bury(draft, member);
    return;
  }
  const member: Member = { ...known, ...merged, status: known.status, lastSeen: draft.now };
  if (known.greeting !== undefined) greet(draft, member);
  else {
    const alive = draft.put({ ...member, status: 'alive' });
    if (known.status === 'dead') draft.effects.push({ type: 'back', member: alive, replaced: false });
    if (known.status === 'suspect') draft.effects.push({ type: 'trusted', member: alive });
  }
}

function supersede(draft: Draft, old: Member, heir: Entry): void {
  if (old.greeting === undefined && isThere(old.status)) {
    draft.lose(old, 'replaced');
  }
  // If the old life still runs somewhere, it is a zombie: the sooner it hears of its heir, the better.
  if (old.agentAddress !== heir.agentAddress && !old.left && isWatched(draft.base, old.task)) {
    draft.announce({ task: old.task, address: old.agentAddress });
  }
}

function greet(draft: Draft, { greeting, ...rest }: Member): void {
  const member = draft.put({ ...rest, status: 'alive', greeting: undefined });
  draft.effects.push(
    greeting === 'joined' ? { type: 'joined', member } : { type: 'back', member, replaced: true },
  );
}

function bury(draft: Draft, member: Member): void {
  draft.effects.push({ type: 'left', member: draft.put({ ...member, status: 'left' }) });
}
