/** The page: its head, what is said when the cluster is out of reach, and its sections. */
import { type JSX, render } from 'preact';
import { Checkpoints } from './checkpoints.js';
import { Curves } from './curves.js';
import { Exports } from './exports.js';
import { number, short, span, whole } from './format.js';
import { Histograms } from './histograms.js';
import { hasInput, Input } from './input.js';
import { Logs } from './logs.js';
import { Model } from './model.js';
import { Releases } from './releases.js';
import { Runs } from './runs.js';
import { isUtc, type Theme, theme } from './settings.js';
import { ageMs, connection, start, state } from './store.js';
import { Tasks } from './tasks.js';
import { Timeline } from './timeline.js';
import 'uplot/dist/uPlot.min.css';
import './page.css';

/** How long a rate is true. */
const CURRENT_MS = 3000;

interface Section {
  readonly name: string;
  readonly Content: () => JSX.Element | null;
  /** Default: always. */
  readonly isShown?: () => boolean;
}

const hasRuns = () => state.value!.runs.length > 0;
const SECTIONS: readonly Section[] = [
  { name: 'Runs', Content: Runs, isShown: hasRuns },
  { name: 'Tasks', Content: Tasks, isShown: () => !hasRuns() },
  { name: 'Curves', Content: Curves },
  { name: 'Histograms', Content: Histograms },
  { name: 'Model', Content: Model, isShown: () => !hasRuns() },
  { name: 'Input', Content: Input, isShown: hasInput },
  { name: 'Checkpoints', Content: Checkpoints },
  { name: 'Exports', Content: Exports, isShown: () => state.value!.exports.length > 0 },
  { name: 'Timeline', Content: Timeline },
  { name: 'Logs', Content: Logs, isShown: () => connection.value !== 'finished' },
  { name: 'Configuration', Content: Configuration },
];

function Status() {
  const texts = {
    connecting: 'connecting',
    live: 'live',
    lost: `no connection for ${span(ageMs.value)}`,
    finished: 'not running',
  };
  return <span class={`connection ${connection.value}`}>{texts[connection.value]}</span>;
}

/** The other tasks that serve this page, when this one is gone. */
function Elsewhere() {
  const { tasks, self } = state.value!;
  const others = tasks.filter(
    ({ task, status }) => task !== self && (status === 'alive' || status === 'suspect'),
  );
  if (others.length === 0) return null;
  return (
    <>
      {' '}
      Other tasks show the same page:{' '}
      {others.slice(0, 6).map(({ task, agentAddress }, i) => (
        <>
          {i > 0 && ', '}
          <a key={task} href={`${location.protocol}//${agentAddress}/page`}>
            {short(task)}
          </a>
        </>
      ))}
      .
    </>
  );
}

function Banner() {
  const { chief, tasks, self } = state.value!;
  const chiefState = tasks.find(({ task }) => task === chief)?.status;
  const isChiefGone = connection.value === 'live' && (chiefState === 'dead' || chiefState === 'suspect');
  return (
    <div role="alert">
      {connection.value === 'lost' && (
        <p class="banner">
          {self === null ? 'The server' : short(self)} does not answer. This is the last state,{' '}
          {span(ageMs.value)} old.
          <Elsewhere />
        </p>
      )}
      {isChiefGone && (
        <p class="banner">
          The chief, {short(chief ?? '')}, {chiefState === 'dead' ? 'is lost' : 'does not answer'}. Until it
          is back, nothing is saved.
        </p>
      )}
    </div>
  );
}

function Figures() {
  const { tasks, chief, lastStep, checkpoints, live } = state.value!;
  const steps = tasks.flatMap(({ step }) => step ?? []);
  const step = steps.length === 0 ? null : Math.max(...steps);
  // The chief's first; a rate only of a task that has just reported it.
  const reported = [...tasks.filter(({ task }) => task === chief), ...tasks].filter(
    ({ report }) => report !== null,
  );
  const rate = reported.find(
    ({ report, reportAgeMs }) => report?.globalStepsPerSecond != null && (reportAgeMs ?? 0) < CURRENT_MS,
  )?.report?.globalStepsPerSecond;
  const loss = reported.find(({ report }) => report?.loss != null)?.report?.loss;
  const figures = [
    ['Step', lastStep === null ? whole(step) : `${whole(step)} of ${whole(lastStep)}`],
    ['Steps per second', live ? number(rate) : '–'],
    ['Loss', number(loss)],
    ['Newest checkpoint', checkpoints[0] ? `step ${whole(checkpoints[0].step)}` : 'none'],
  ];
  return (
    <section class="figures" aria-label="Progress">
      <dl>
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {lastStep !== null && step !== null && (
        <progress max={lastStep} value={Math.min(step, lastStep)} aria-label="Steps made" />
      )}
    </section>
  );
}

function Configuration() {
  const { configuration } = state.value!;
  return (
    <section id="configuration" aria-labelledby="configuration-title">
      <h2 id="configuration-title">Configuration</h2>
      <dl class="configuration">
        {configuration.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Page() {
  const current = state.value;
  if (current === undefined) {
    return (
      <main>
        <h1>Shoal</h1>
        <p>Connecting to the cluster …</p>
      </main>
    );
  }
  const sections = SECTIONS.filter(({ isShown = () => true }) => isShown());
  document.title = `${current.cluster} · Shoal`;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header>
        <h1>{current.cluster}</h1>
        <Status />
        <nav aria-label="Sections">
          {sections.map(({ name }) => (
            <a key={name} href={`#${name.toLowerCase()}`}>
              {name}
            </a>
          ))}
        </nav>
        <div class="choices">
          <label>
            Theme
            <select
              value={theme.value}
              onChange={(event) => {
                theme.value = event.currentTarget.value as Theme;
              }}
            >
              <option value="auto">as the system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <label>
            Times
            <select
              value={isUtc.value ? 'utc' : 'local'}
              onChange={(event) => {
                isUtc.value = event.currentTarget.value === 'utc';
              }}
            >
              <option value="local">local</option>
              <option value="utc">UTC</option>
            </select>
          </label>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <Banner />
        <Releases />
        {!hasRuns() && <Figures />}
        {sections.map(({ name, Content }) => (
          <Content key={name} />
        ))}
      </main>
    </>
  );
}

start();
const root = document.getElementById('page')!;
root.replaceChildren();
render(<Page />, root);
