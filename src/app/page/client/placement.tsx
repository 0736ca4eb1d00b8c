/** Which ps holds how much of the variables, and how much it sends and receives. */
import type { PageModel } from '../state.js';
import { type Amount, LEAST_BYTES, LEAST_BYTES_PER_SECOND, percent, shareOf, uneven } from './balance.js';
import { bytesText, whole } from './format.js';
import { Scroll } from './scroll.js';
import { state } from './store.js';

/** A report of the last seconds counts. */
const CURRENT_MS = 5000;

/** `/job:ps/task:0` as `ps/0`. */
const placeOf = (task: string): string => task.replace(/^\/job:(.+)\/task:(\d+)$/, '$1/$2');

function Share({ amount, all }: { readonly amount: number; readonly all: readonly Amount[] }) {
  const share = shareOf(amount, all);
  return (
    <td class="share">
      <span class="bar" aria-hidden="true">
        <i style={{ width: `${share * 100}%` }} />
      </span>
      {percent(share)}
    </td>
  );
}

/** The ps; without any, all tasks that hold variables. */
function rowsOf({ placement }: PageModel) {
  const { tasks } = state.value!;
  const ps = tasks.filter(({ task, status }) => task.startsWith('/job:ps/') && status !== 'left');
  const all = tasks.filter(({ task }) => task.startsWith('/job:ps/'));
  const names = (ps.length > 0 ? ps : all).map(({ task }) => placeOf(task));
  const shown = names.length > 0 ? names : placement.map(({ task }) => task);
  return shown.map((name) => {
    const held = placement.find(({ task }) => task === name);
    const task = tasks.find((one) => placeOf(one.task) === name);
    const isCurrent = (task?.reportAgeMs ?? Number.POSITIVE_INFINITY) < CURRENT_MS;
    return {
      task: name,
      variables: held?.variables ?? 0,
      bytes: held?.bytes ?? 0,
      traffic: isCurrent ? (task?.report?.trafficPerSecond ?? null) : null,
    };
  });
}

export function Placement({ model }: { readonly model: PageModel }) {
  const rows = rowsOf(model);
  const bytes = rows.map(({ task, bytes: amount }) => ({ task, amount }));
  const traffic = rows.flatMap(({ task, traffic: amount }) => (amount === null ? [] : [{ task, amount }]));
  const hasTraffic = traffic.length > 0;
  const warnings = [
    uneven(bytes, { least: LEAST_BYTES, what: 'holds % of the bytes of the variables', unit: '' }),
    uneven(traffic, { least: LEAST_BYTES_PER_SECOND, what: 'carries % of the traffic', unit: '/s' }),
  ].filter((text) => text !== undefined);
  return (
    <>
      {warnings.map((text) => (
        <p key={text} class="uneven">
          {text}
        </p>
      ))}
      <Scroll label="Placement of the variables" kind="tall">
        <table class="narrow">
          <thead>
            <tr>
              <th scope="col">Held by</th>
              <th scope="col" class="number">
                Variables
              </th>
              <th scope="col" class="number">
                Bytes
              </th>
              <th scope="col">Share of the bytes</th>
              {hasTraffic && (
                <>
                  <th scope="col" class="number">
                    Traffic
                  </th>
                  <th scope="col">Share of the traffic</th>
                </>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.task}>
                <th scope="row">{row.task === '' ? 'the process' : row.task}</th>
                <td class="number">{whole(row.variables)}</td>
                <td class="number">{bytesText(row.bytes)}</td>
                <Share amount={row.bytes} all={bytes} />
                {hasTraffic && (
                  <>
                    <td class="number">{row.traffic === null ? '–' : `${bytesText(row.traffic)}/s`}</td>
                    <Share amount={row.traffic ?? 0} all={traffic} />
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}
