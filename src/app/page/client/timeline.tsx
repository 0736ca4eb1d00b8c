/** What has happened: saves, losses, recoveries, exports. */

import { signal } from '@preact/signals';
import type { PageEventType } from '../state.js';
import { momentText, short } from './format.js';
import { Scroll } from './scroll.js';
import { isUtc } from './settings.js';
import { events } from './store.js';

const MOST_SHOWN = 100;

const KINDS: readonly { readonly name: string; readonly types: readonly PageEventType[] }[] = [
  { name: 'Saves', types: ['saved', 'save-failed'] },
  { name: 'Losses', types: ['lost', 'back', 'joined', 'left'] },
  { name: 'Recoveries', types: ['recovered'] },
  { name: 'Exports', types: ['exported', 'published', 'publish-failed'] },
  { name: 'Evaluations', types: ['evaluated'] },
];
const hidden = signal<ReadonlySet<string>>(new Set());

const isShown = (type: PageEventType): boolean =>
  !KINDS.some(({ name, types }) => types.includes(type) && hidden.value.has(name));

/** All events on one line, by time. */
function Strip() {
  const shown = events.value.filter(({ type }) => isShown(type));
  const [first, last] = [shown[0], shown.at(-1)];
  if (!first || !last) return null;
  const width = Math.max(1, last.at - first.at);
  return (
    <div class="strip" aria-hidden="true">
      {shown.map(({ id, at, type }) => (
        <i key={id} class={type} style={{ left: `${((at - first.at) / width) * 100}%` }} />
      ))}
    </div>
  );
}

export function Timeline() {
  const shown = events.value.filter(({ type }) => isShown(type));
  return (
    <section id="timeline" aria-labelledby="timeline-title">
      <h2 id="timeline-title">Timeline</h2>
      <fieldset class="toolbar" aria-label="Shown events">
        {KINDS.map(({ name }) => (
          <label key={name} class="check">
            <input
              type="checkbox"
              checked={!hidden.value.has(name)}
              onChange={(event) => {
                const next = new Set(hidden.value);
                if (event.currentTarget.checked) next.delete(name);
                else next.add(name);
                hidden.value = next;
              }}
            />
            {name}
          </label>
        ))}
      </fieldset>
      <Strip />
      {shown.length === 0 ? (
        <p class="empty">Nothing yet.</p>
      ) : (
        <Scroll label="Events, the newest first" kind="tall">
          <ol class="events">
            {shown
              .slice(-MOST_SHOWN)
              .reverse()
              .map(({ id, at, type, task, text }) => (
                <li key={id} class={type}>
                  <time dateTime={new Date(at).toISOString()}>{momentText(at, isUtc.value)}</time>
                  <span class="kind">{type.replace('-', ' ')}</span>
                  <span>
                    <b>{short(task)}</b> {text}
                  </span>
                </li>
              ))}
          </ol>
        </Scroll>
      )}
    </section>
  );
}
