/** The log of one task, which is asked for while it is open. */

import { effect, signal } from '@preact/signals';
import type { LogLine, LogPart } from '../state.js';
import { momentText, short } from './format.js';
import { Scroll } from './scroll.js';
import { isUtc } from './settings.js';
import { connection, state } from './store.js';

const EVERY_MS = 2000;
const MOST_LINES = 1000;
const LEVELS = ['debug', 'info', 'warn', 'error'];

const isOpen = signal(false);
const task = signal('');
const filter = signal('');
const level = signal('info');
const lines = signal<readonly LogLine[]>([]);
const problem = signal<string | undefined>(undefined);

/** Asks again and again until the returned function is called. */
function follow(of: string): () => void {
  let isOver = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = 0;
  const ask = async () => {
    try {
      const response = await fetch(`/page/log?task=${encodeURIComponent(of)}&after=${last}`, {
        signal: AbortSignal.timeout(8000),
      });
      if (!response.ok) throw new Error(await response.text());
      const part = (await response.json()) as LogPart;
      if (isOver) return;
      problem.value = undefined;
      lines.value = [...lines.value, ...part.lines].slice(-MOST_LINES);
      last = part.lines.at(-1)?.number ?? last;
    } catch (error) {
      if (isOver) return;
      // Its successor numbers its lines from the beginning.
      last = 0;
      problem.value = `${short(of)} does not answer: ${error instanceof Error ? error.message : 'no answer'}`;
    }
    if (!isOver && connection.value !== 'finished') timer = setTimeout(() => void ask(), EVERY_MS);
  };
  void ask();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

effect(() => {
  if (!isOpen.value || task.value === '') return undefined;
  lines.value = [];
  problem.value = undefined;
  return follow(task.value);
});

function shownLines(): readonly LogLine[] {
  const least = LEVELS.indexOf(level.value);
  const text = filter.value.toLowerCase();
  return lines.value.filter(
    (line) => LEVELS.indexOf(line.level) >= least && (text === '' || line.text.toLowerCase().includes(text)),
  );
}

export function Logs() {
  const { tasks, chief } = state.value!;
  const shown = isOpen.value ? shownLines() : [];
  return (
    <section id="logs" aria-labelledby="logs-title">
      <h2 id="logs-title">Logs</h2>
      <div class="toolbar">
        <label>
          Task
          <select
            value={task.value}
            onChange={(event) => {
              task.value = event.currentTarget.value;
              isOpen.value = task.value !== '';
            }}
          >
            <option value="">none</option>
            {tasks.map((one) => (
              <option key={one.task} value={one.task}>
                {short(one.task)}
                {one.task === chief ? ' (chief)' : ''}
              </option>
            ))}
          </select>
        </label>
        <label>
          Level
          <select
            value={level.value}
            onChange={(event) => {
              level.value = event.currentTarget.value;
            }}
          >
            {LEVELS.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
        <label>
          Contains
          <input
            type="search"
            value={filter.value}
            onInput={(event) => {
              filter.value = event.currentTarget.value;
            }}
          />
        </label>
      </div>
      {problem.value && <p class="problem">{problem.value}; the last lines stay.</p>}
      {task.value === '' ? (
        <p class="empty">Choose a task to see the last lines of its log.</p>
      ) : (
        <Scroll label={`Log of ${short(task.value)}`} kind="tall log">
          {shown.map((line) => (
            <p key={line.number} class={line.level}>
              <time>{momentText(line.at, isUtc.value)}</time>{' '}
              {line.level === 'info' ? '' : `${line.level.toUpperCase()} `}
              {line.text}
            </p>
          ))}
          {shown.length === 0 && <p>No lines.</p>}
        </Scroll>
      )}
    </section>
  );
}
