/** Asks for a part of the state again and again while its section is on the screen. */
import type { RefObject } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { connection } from './store.js';

const RETRY_MS = 3000;
const ANSWER_MS = 10_000;

export interface Question<T> {
  readonly path: (last: T | undefined) => string;
  /** How long an answer is current. */
  readonly waitMs: (last: T) => number;
}

/** The last answer; undefined: none yet. */
export function useAnswer<T>(
  section: RefObject<HTMLElement | null>,
  { path, waitMs }: Question<T>,
): T | undefined {
  const [answer, setAnswer] = useState<T | undefined>(undefined);
  useEffect(() => {
    let last: T | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isSeen = false;
    let isAsking = false;
    const ask = async (): Promise<void> => {
      if (isAsking || !isSeen) return;
      isAsking = true;
      clearTimeout(timer);
      let next = RETRY_MS;
      try {
        const response = await fetch(path(last), { signal: AbortSignal.timeout(ANSWER_MS) });
        if (response.status === 200) {
          last = (await response.json()) as T;
          setAnswer(last);
        }
        if (response.ok && last !== undefined) next = waitMs(last);
      } catch {
        // The last answer stays; the head of the page says that there is no connection.
      }
      isAsking = false;
      timer = setTimeout(() => void ask(), connection.value === 'finished' ? Math.max(next, 10_000) : next);
    };
    const watch = new IntersectionObserver((entries) => {
      isSeen = entries.at(-1)?.isIntersecting === true;
      if (isSeen) void ask();
    });
    watch.observe(section.current!);
    return () => {
      watch.disconnect();
      isSeen = false;
      clearTimeout(timer);
    };
  }, []);
  return answer;
}
