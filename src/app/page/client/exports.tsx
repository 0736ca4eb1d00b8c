/** The versions that were exported, and which serving processes have them. */
import type { PageExport } from '../state.js';
import { bytesText, momentText, short, span, whole } from './format.js';
import { Scroll } from './scroll.js';
import { isUtc } from './settings.js';
import { state } from './store.js';

const KINDS = {
  published: 'good',
  publishing: '',
  waiting: 'warn',
  refused: 'warn',
  failed: 'bad',
} as const;

function Servers({ publications }: Pick<PageExport, 'publications'>) {
  return (
    <ul class="servers">
      {publications.map(({ server, state: what, at, text }) => (
        <li key={server}>
          {server} <span class={`health ${KINDS[what]}`}>{what}</span>{' '}
          <span class="age">
            {momentText(at, isUtc.value)}
            {text && `: ${text}`}
          </span>
        </li>
      ))}
    </ul>
  );
}

export function Exports() {
  const { exports: versions } = state.value!;
  const isPublished = versions.some(({ publications }) => publications.length > 0);
  return (
    <section id="exports" aria-labelledby="exports-title">
      <h2 id="exports-title">Exports</h2>
      <Scroll label="Exported versions, the newest first" kind="tall">
        <table>
          <thead>
            <tr>
              <th scope="col">Version</th>
              <th scope="col" class="number">
                Step
              </th>
              <th scope="col">Made</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col" class="number">
                Took
              </th>
              <th scope="col">By</th>
              <th scope="col">Where</th>
              {isPublished && <th scope="col">Serving processes</th>}
            </tr>
          </thead>
          <tbody>
            {versions.map(({ version, step, at, bytes, ms, task, path, publications }) => (
              <tr key={`${task} ${path}`}>
                <th scope="row">{version}</th>
                <td class="number">{whole(step)}</td>
                <td>
                  <time dateTime={new Date(at).toISOString()}>{momentText(at, isUtc.value)}</time>
                </td>
                <td class="number">{bytesText(bytes)}</td>
                <td class="number">{span(ms)}</td>
                <td>{short(task)}</td>
                <td class="path">{path}</td>
                {isPublished && (
                  <td>
                    <Servers publications={publications} />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
