/** The tasks on their hosts. */

import type { TaskState } from '../state.js';
import { bytesText, number, short, span, whole } from './format.js';
import { Scroll } from './scroll.js';
import { ageMs, connection, state } from './store.js';

/** A report of the last seconds counts as current. */
const STALE_MS = 5000;

function statusOf({ status, busyMs }: TaskState): string {
  return busyMs !== undefined && status !== 'dead' && status !== 'left' ? `busy ${span(busyMs)}` : status;
}

function Row({ task }: { readonly task: TaskState }) {
  const { report, reportAgeMs, status } = task;
  const { chief, self } = state.value!;
  const age = (reportAgeMs ?? 0) + (connection.value === 'lost' ? ageMs.value : 0);
  const isStale = report !== null && age > STALE_MS && connection.value !== 'finished';
  const marks = [task.task === chief ? 'chief' : '', task.task === self ? 'serves this page' : ''].filter(
    Boolean,
  );
  return (
    <tr class={isStale ? 'stale' : ''}>
      <th scope="row">
        {short(task.task)}
        {marks.map((mark) => (
          <span key={mark} class="mark">
            {mark}
          </span>
        ))}
      </th>
      <td>
        <span class={`state ${status}`}>{statusOf(task)}</span>
        {isStale && <span class="age"> as of {span(age)} ago</span>}
      </td>
      <td>{task.host}</td>
      <td class="number">{whole(task.step)}</td>
      <td class="number">{number(report?.stepsPerSecond)}</td>
      <td class="number">{bytesText(report?.residentBytes)}</td>
      <td class="number">{whole(report?.nativeCalls)}</td>
      <td class="number">
        {report ? `${bytesText(report.sentBytes)} / ${bytesText(report.receivedBytes)}` : '–'}
      </td>
      <td class="number">{report && report.leasedRecords > 0 ? whole(report.leasedRecords) : '–'}</td>
      <td class="number">{task.incarnation - task.first}</td>
      <td class="number">{span(task.silentMs)}</td>
      <td class="number">{task.pid === 0 ? '–' : task.pid}</td>
    </tr>
  );
}

const HEAD = [
  ['Task', ''],
  ['State', ''],
  ['Host', ''],
  ['Step', 'number'],
  ['Steps/s', 'number'],
  ['Memory', 'number'],
  ['Calls', 'number'],
  ['Sent / received', 'number'],
  ['Records', 'number'],
  ['Restarts', 'number'],
  ['Last heard', 'number'],
  ['Process', 'number'],
] as const;

export function Tasks() {
  const { tasks } = state.value!;
  const left = tasks.filter(({ status }) => status === 'left').length;
  const alive = tasks.filter(({ status }) => status === 'alive').length;
  return (
    <section id="tasks" aria-labelledby="tasks-title">
      <h2 id="tasks-title">Tasks</h2>
      {state.value!.live && (
        <p class="summary">
          {alive} of {tasks.length - left} alive{left > 0 ? `, ${left} left` : ''}
        </p>
      )}
      <Scroll label="Table of tasks">
        <table>
          <thead>
            <tr>
              {HEAD.map(([title, kind]) => (
                <th key={title} scope="col" class={kind}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {tasks.map((task) => (
              <Row key={task.task} task={task} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
