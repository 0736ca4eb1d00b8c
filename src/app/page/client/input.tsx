/** The input: epochs, data shards and their leases, records per second. */
import { number, short, whole } from './format.js';
import { Scroll } from './scroll.js';
import { state } from './store.js';

const counted = (count: number, noun: string): string => `${whole(count)} ${noun}${count === 1 ? '' : 's'}`;

/** Whether there is something to show: the input is leased. */
export const hasInput = (): boolean =>
  state.value!.input !== null || state.value!.tasks.some(({ report }) => (report?.leasedRecords ?? 0) > 0);

function Epochs() {
  const { input } = state.value!;
  if (input === null) return <p class="empty">The chief, which leases the records, does not answer.</p>;
  const { epoch, epochs, records, shards, unleasedShards, returned, consumed } = input;
  const { leases, leasedRecords, holders, waiting } = input;
  const total = epochs === null ? null : epochs * records;
  const figures: readonly (readonly [string, string])[] = [
    ['Epoch', `${whole(epoch + 1)}${epochs === null ? '' : ` of ${whole(epochs)}`}`],
    ['Records consumed', `${whole(consumed)}${total === null ? '' : ` of ${whole(total)}`}`],
    [
      'Data shards of the epoch',
      `${whole(shards - unleasedShards)} of ${whole(shards)} leased, ${whole(unleasedShards)} wait`,
    ],
    [
      'Open leases',
      `${whole(leases)} with ${whole(leasedRecords)} records, of ${counted(holders, 'worker')}`,
    ],
    ...(returned > 0 ? [['Given back', `${counted(returned, 'part')}, to be leased again`] as const] : []),
    ...(waiting > 0 ? [['Waiting', `${counted(waiting, 'worker')} without a lease`] as const] : []),
  ];
  const done = (((consumed % records) + records) % records) / records;
  return (
    <>
      <dl class="configuration">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <progress max={1} value={total === null ? done : consumed / total} aria-label="Records consumed" />
    </>
  );
}

export function Input() {
  const readers = state.value!.tasks.filter(
    ({ report }) => (report?.leasedRecords ?? 0) > 0 || (report?.leasesHeld ?? 0) > 0,
  );
  const rate = readers.reduce((sum, { report }) => sum + (report?.recordsPerSecond ?? 0), 0);
  return (
    <section id="input" aria-labelledby="input-title">
      <h2 id="input-title">Input</h2>
      <Epochs />
      {readers.length > 0 && (
        <Scroll label="Records by task" kind="tall">
          <table class="narrow">
            <thead>
              <tr>
                <th scope="col">Task</th>
                <th scope="col" class="number">
                  Records per second
                </th>
                <th scope="col" class="number">
                  Records
                </th>
                <th scope="col" class="number">
                  Open leases
                </th>
              </tr>
            </thead>
            <tbody>
              {readers.map(({ task, report }) => (
                <tr key={task}>
                  <th scope="row">{short(task)}</th>
                  <td class="number">{number(report?.recordsPerSecond)}</td>
                  <td class="number">{whole(report?.leasedRecords)}</td>
                  <td class="number">{whole(report?.leasesHeld)}</td>
                </tr>
              ))}
              {readers.length > 1 && (
                <tr>
                  <th scope="row">all</th>
                  <td class="number">{number(rate)}</td>
                  <td />
                  <td />
                </tr>
              )}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}
