/** The curves: one chart for each name, one line for each task. All charts show the same range. */
import { computed, signal, useComputed, useSignalEffect } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { momentText, number, short, span } from './format.js';
import { type ChartLine, chartLines, colorAt, colorIndex, dashAt, hiddenRuns, lineOf } from './lines.js';
import { type Axis, axis, isDark, isUtc, smoothing } from './settings.js';
import { curves, curvesVersion } from './store.js';

const HEIGHT = 190;
/** Lines in the legend of a chart. */
const MOST_NAMED = 10;

type Range = readonly [number, number] | undefined;
/** The range of the x axis; undefined: everything. */
const zoom = signal<Range>(undefined);

const names = computed(() => {
  curvesVersion.value;
  const rank = (name: string) => ['loss', 'global steps/s', 'steps/s'].indexOf(name);
  const order = (name: string) => (rank(name) < 0 ? 9 : rank(name));
  return [...curves.keys()].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
});

function joined(lines: readonly ChartLine[]): uPlot.AlignedData {
  if (lines.length === 0) return [[]];
  return uPlot.join(lines.map(({ x, y }) => [x as number[], y as number[]]));
}

function optionsOf(name: string, lines: readonly ChartLine[], width: number): uPlot.Options {
  const isTime = axis.value === 'time';
  const text = isDark.value ? '#c3c9d3' : '#4b5563';
  const line = { stroke: text, grid: { stroke: isDark.value ? '#30363f' : '#e4e7ec' } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: 'shoal' }, drag: { x: true, y: false } },
    ...(isTime && isUtc.value
      ? { tzDate: (secs: number) => uPlot.tzDate(new Date(secs * 1000), 'UTC') }
      : {}),
    scales: { x: { time: isTime, range: (_, least, most) => rangeOf(least, most) } },
    axes: [
      { ...line, space: 90, ...xValues() },
      { ...line, size: 56, values: (_, ticks) => ticks.map((tick) => number(tick)) },
    ],
    series: [
      {},
      ...lines.map((one, i) => ({
        label: `${name} ${one.task}`,
        stroke: colorAt(colorIndex(one, i), isDark.value),
        ...(dashAt(colorIndex(one, i)) && { dash: dashAt(colorIndex(one, i))! }),
        width: 1.5,
        spanGaps: true,
        points: { show: false },
      })),
    ],
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width: selected } = plot.select;
          if (selected > 3) zoom.value = [plot.posToVal(left, 'x'), plot.posToVal(left + selected, 'x')];
        },
      ],
    },
  };
}

/** How the ticks of the x axis are written. */
function xValues(): { readonly values?: (_: uPlot, ticks: number[]) => string[] } {
  if (axis.value === 'time') return { values: (_, ticks) => timesOf(ticks) };
  if (axis.value === 'since') return { values: (_, ticks) => ticks.map((secs) => span(secs * 1000)) };
  return {};
}

/** The times at ticks, without seconds if all are of whole minutes. */
function timesOf(ticks: readonly number[]): string[] {
  const digits = ticks.every((secs) => secs % 60 === 0) ? 5 : 8;
  return ticks.map((secs) => {
    const [day, time] = momentText(secs * 1000, isUtc.value).split(' ');
    return time === undefined ? day!.slice(0, digits) : `${day!.slice(5)} ${time.slice(0, 5)}`;
  });
}

function rangeOf(least: number | null, most: number | null): uPlot.Range.MinMax {
  if (zoom.value) return [zoom.value[0], zoom.value[1]];
  return least === null || most === null ? [0, 1] : least === most ? [least - 1, most + 1] : [least, most];
}

function Chart({ name }: { readonly name: string }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<{ chart: uPlot; key: string } | undefined>(undefined);
  const lines = useComputed(() => {
    curvesVersion.value;
    return chartLines(name);
  });
  const draw = () => {
    const element = box.current;
    if (!element) return;
    const width = Math.max(200, element.clientWidth);
    const key = [...lines.value.map(({ task }) => task), axis.value, isDark.value, isUtc.value, width].join();
    const data = joined(lines.value);
    if (plot.current?.key === key) {
      plot.current.chart.setData(data);
      return;
    }
    plot.current?.chart.destroy();
    plot.current = { key, chart: new uPlot(optionsOf(name, lines.value, width), data, element) };
    plot.current.chart.over.addEventListener('dblclick', () => {
      zoom.value = undefined;
    });
  };
  useSignalEffect(() => {
    zoom.value;
    hiddenRuns.value;
    draw();
  });
  useEffect(() => {
    const watch = new ResizeObserver(draw);
    watch.observe(box.current!);
    draw();
    return () => {
      watch.disconnect();
      plot.current?.chart.destroy();
    };
  }, []);
  const named = lines.value.slice(0, MOST_NAMED);
  const more = lines.value.length - named.length;
  const latest = named.map(({ task, y }) => `${short(task)}: ${number(y.at(-1))}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        <h3>{name}</h3>
        <ul class="legend">
          {named.map((line, i) => (
            <li key={line.task}>
              <span class="swatch" style={{ background: colorAt(colorIndex(line, i), isDark.value) }} />
              {short(line.task)} <b>{number(line.y.at(-1))}</b>
            </li>
          ))}
          {more > 0 && <li>and {more} more</li>}
        </ul>
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`Curve of ${name}. Latest: ${latest}`} />
    </figure>
  );
}

/** Zooms and moves by keyboard too. */
function move(factor: number, shift: number): void {
  const all = [...curves.values()].flatMap((byTask) =>
    [...byTask].map(([task, curve]) => lineOf(task, curve)),
  );
  const starts = all.flatMap(({ x }) => x.slice(0, 1));
  const ends = all.flatMap(({ x }) => x.slice(-1));
  if (starts.length === 0) return;
  const [from, to] = zoom.value ?? [Math.min(...starts), Math.max(...ends)];
  const [middle, half] = [(from + to) / 2 + shift * (to - from), ((to - from) / 2) * factor];
  zoom.value = [middle - half, middle + half];
}

export function Curves() {
  return (
    <section id="curves" aria-labelledby="curves-title">
      <h2 id="curves-title">Curves</h2>
      <div class="toolbar">
        <label>
          Smoothing
          <input
            type="range"
            min="0"
            max="0.98"
            step="0.02"
            value={smoothing.value}
            onInput={(event) => {
              smoothing.value = Number(event.currentTarget.value);
            }}
          />
        </label>
        <label>
          Axis
          <select
            value={axis.value}
            onChange={(event) => {
              zoom.value = undefined;
              axis.value = event.currentTarget.value as Axis;
            }}
          >
            <option value="time">time</option>
            <option value="since">time since the start</option>
            <option value="step">step</option>
          </select>
        </label>
        <fieldset class="buttons" aria-label="Zoom">
          <button type="button" onClick={() => move(0.5, 0)}>
            Zoom in
          </button>
          <button type="button" onClick={() => move(2, 0)}>
            Zoom out
          </button>
          <button type="button" aria-label="Earlier" onClick={() => move(1, -0.25)}>
            ◀
          </button>
          <button type="button" aria-label="Later" onClick={() => move(1, 0.25)}>
            ▶
          </button>
          <button
            type="button"
            disabled={zoom.value === undefined}
            onClick={() => {
              zoom.value = undefined;
            }}
          >
            All
          </button>
        </fieldset>
      </div>
      {names.value.length === 0 ? (
        <p class="empty">No step has been made yet.</p>
      ) : (
        <div class="charts">
          {names.value.map((name) => (
            <Chart key={name} name={name} />
          ))}
        </div>
      )}
    </section>
  );
}
