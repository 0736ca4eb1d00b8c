import { describe, expect, it } from 'vitest';
import { type PeerMember, type Peers, replicaCandidates } from './peers.js';

const member = (place: string, more: Partial<PeerMember> = {}): PeerMember => ({
  place,
  host: place,
  alive: true,
  ...more,
});

const candidates = (members: readonly PeerMember[], name = 'logs/model.ckpt-1/data') => {
  const peers = { self: 'ps/0', members: () => members } as Peers;
  return replicaCandidates(peers, name).map(({ place }) => place);
};

describe('the first candidate for a replica', () => {
  const others = [member('ps/1', { turn: 2 }), member('worker/1'), member('worker/2')];

  it('is a worker first, then the chief, then another ps', () => {
    const chief = member('worker/0', { turn: 1 });
    for (const folder of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const order = candidates([member('ps/0'), chief, ...others], `${folder}/x`);
      expect(order).toHaveLength(4);
      expect(order.slice(2)).toEqual(['worker/0', 'ps/1']);
    }
    expect(candidates([member('ps/0'), chief])).toEqual(['worker/0']);
  });

  it('is the chief rather than a task on the same host', () => {
    const chief = member('worker/0', { turn: 1 });
    const near = member('worker/1', { host: 'ps/0' });
    expect(candidates([member('ps/0'), chief, near])[0]).toBe('worker/0');
  });
});
