/** The checkpoints: a grid of files and tasks with the health of each copy. */

import { signal } from '@preact/signals';
import type { CopyHealth, PageCheckpoint } from '../state.js';
import { bytesText, momentText, span, whole } from './format.js';
import { Scroll } from './scroll.js';
import { isUtc } from './settings.js';
import { clock, state } from './store.js';

const SIGNS: Readonly<Record<CopyHealth, string>> = { good: '●', missing: '✕', damaged: '!', unknown: '?' };

const chosen = signal<string | undefined>(undefined);

/** Copies that are there, of the file that has the fewest. */
function fewest({ files }: PageCheckpoint): number {
  const good = files.map(({ copies }) => Object.values(copies).filter((health) => health === 'good').length);
  return good.length === 0 ? 0 : Math.min(...good);
}

function healthOf(checkpoint: PageCheckpoint): { readonly kind: string; readonly text: string } {
  const all = checkpoint.files.flatMap(({ copies }) => Object.values(copies));
  const count = (health: CopyHealth) => all.filter((one) => one === health).length;
  const [gone, unknown] = [count('missing') + count('damaged'), count('unknown')];
  if (fewest(checkpoint) === 0)
    return unknown > 0
      ? { kind: 'unknown', text: 'copies are on tasks that do not answer' }
      : { kind: 'bad', text: 'a file has no copy' };
  if (gone > 0) return { kind: 'warn', text: `${gone} ${gone === 1 ? 'copy' : 'copies'} lost` };
  if (unknown > 0) return { kind: 'unknown', text: `${unknown} not known` };
  return { kind: 'good', text: 'all copies there' };
}

function Grid({ checkpoint }: { readonly checkpoint: PageCheckpoint }) {
  const places = [...new Set(checkpoint.files.flatMap(({ copies }) => Object.keys(copies)))].sort((a, b) =>
    a.localeCompare(b, 'en', { numeric: true }),
  );
  const label = `The copies of ${checkpoint.name}`;
  return (
    <Scroll label={label}>
      <table class="grid">
        <caption class="hidden">{label}: a row for each file, a column for each task</caption>
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col" class="number">
              Size
            </th>
            {places.map((place) => (
              <th key={place} scope="col">
                {place.replace('/', ' ')}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {checkpoint.files.map(({ file, size, copies }) => (
            <tr key={file}>
              <th scope="row">
                {file.startsWith(checkpoint.name) ? file.slice(checkpoint.name.length) : file}
              </th>
              <td class="number">{bytesText(size)}</td>
              {places.map((place) => {
                const health = copies[place];
                return (
                  <td key={place} class={`copy ${health ?? 'none'}`}>
                    {health && (
                      <>
                        <span aria-hidden="true">{SIGNS[health]}</span>
                        <span class="hidden">{health}</span>
                      </>
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

export function Checkpoints() {
  const { checkpoints } = state.value!;
  const shown = checkpoints.find(({ attempt }) => attempt === chosen.value) ?? checkpoints[0];
  return (
    <section id="checkpoints" aria-labelledby="checkpoints-title">
      <h2 id="checkpoints-title">Checkpoints</h2>
      {shown === undefined ? (
        <p class="empty">There is no checkpoint on the disks of these tasks.</p>
      ) : (
        <>
          <div class="toolbar">
            <label>
              Checkpoint
              <select
                value={shown.attempt}
                onChange={(event) => {
                  chosen.value = event.currentTarget.value;
                }}
              >
                {checkpoints.map(({ name, attempt }, i) => (
                  <option key={attempt} value={attempt}>
                    {name}
                    {i === 0 && state.value!.runs.length === 0 ? ' (newest)' : ''}
                  </option>
                ))}
              </select>
            </label>
            <span class={`health ${healthOf(shown).kind}`}>{healthOf(shown).text}</span>
            <span>
              step {whole(shown.step)}, {bytesText(shown.bytes)}, {whole(shown.tensors)} tensors, saved{' '}
              <time dateTime={new Date(shown.savedAtMs).toISOString()}>
                {momentText(shown.savedAtMs, isUtc.value)}
              </time>
              {state.value!.live && `, ${span(Math.max(0, clock.value - shown.savedAtMs))} ago`}
            </span>
          </div>
          <Grid checkpoint={shown} />
          <p class="key">
            ● there, ✕ missing, ! of another size, ? its task does not answer. Sizes are compared here;{' '}
            <code>shoal checkpoint verify</code> compares checksums.
          </p>
        </>
      )}
    </section>
  );
}
