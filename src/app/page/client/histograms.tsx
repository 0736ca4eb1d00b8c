/** The histograms and texts of summaries. A histogram is a picture: a column for each step, darker where more values are. */
import { useEffect, useRef } from 'preact/hooks';
import type { PageHistogram, PageSummaries, PageText } from '../state.js';
import { useAnswer } from './ask.js';
import { momentText, number, short, whole } from './format.js';
import { Scroll } from './scroll.js';
import { isDark, isUtc } from './settings.js';

const EVERY_MS = 5000;
const HEIGHT = 130;

/** The least and the largest value of all columns. */
function rangeOf({ columns }: PageHistogram): readonly [number, number] {
  const least = Math.min(...columns.map((column) => column.least));
  const most = Math.max(...columns.map((column) => column.most));
  return least === most ? [least - 0.5, most + 0.5] : [least, most];
}

/** Each part of a column is as opaque as it is dense, compared with the densest part of all columns. */
function draw(canvas: HTMLCanvasElement, histogram: PageHistogram, dark: boolean): void {
  const { columns } = histogram;
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [Math.max(1, canvas.clientWidth) * scale, HEIGHT * scale];
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext('2d');
  if (!pen) return;
  const [least, most] = rangeOf(histogram);
  const span = most - least;
  const densities = columns.map((column) => {
    const size = Math.max((column.most - column.least) / column.parts.length, span / 200);
    return column.parts.map((part) => part / size);
  });
  const densest = Math.max(...densities.flat());
  pen.fillStyle = dark ? '#8ab4ff' : '#0b57d0';
  const each = width / columns.length;
  columns.forEach((column, i) => {
    const size = (column.most - column.least) / column.parts.length;
    column.parts.forEach((part, j) => {
      if (part === 0) return;
      const low = (column.least + j * size - least) / span;
      const [top, bottom] = [1 - low - size / span, 1 - low].map((one) => Math.round(one * height));
      const [left, right] = [i, i + 1].map((one) => Math.round(one * each));
      pen.globalAlpha = 0.08 + 0.92 * Math.sqrt(densities[i]![j]! / densest);
      pen.fillRect(left!, Math.min(top!, height - 2), right! - left!, Math.max(2, bottom! - top!));
    });
  });
}

function Histogram({ histogram }: { readonly histogram: PageHistogram }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = isDark.value;
  useEffect(() => {
    const redraw = () => canvas.current && draw(canvas.current, histogram, dark);
    const watch = new ResizeObserver(redraw);
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, [histogram, dark]);
  const { name, task, columns } = histogram;
  const [least, most] = rangeOf(histogram);
  const [first, last] = [columns[0], columns.at(-1)];
  if (!first || !last) return null;
  const latest = `step ${whole(last.step)}: ${number(last.least)} to ${number(last.most)}, mean ${number(last.mean)}`;
  return (
    <figure class="chart">
      <figcaption>
        <h3>{name}</h3>
        <p class="legend">
          {short(task)}, {latest}
        </p>
      </figcaption>
      <div class="heat">
        <span>{number(most)}</span>
        <span>{number(least)}</span>
        <canvas ref={canvas} role="img" aria-label={`Distribution of ${name}. At ${latest}`} />
        <span>step {whole(first.step)}</span>
        <span>{whole(last.step)}</span>
      </div>
    </figure>
  );
}

function Text({ one: { name, task, step, at, text } }: { readonly one: PageText }) {
  return (
    <article>
      <h3>{name}</h3>
      <p class="legend">
        {short(task)}, step {whole(step)}, {momentText(at, isUtc.value)}
      </p>
      <Scroll label={`Text of ${name}`} kind="tall log">
        <p>{text}</p>
      </Scroll>
    </article>
  );
}

export function Histograms() {
  const section = useRef<HTMLElement>(null);
  const summaries = useAnswer<PageSummaries>(section, {
    path: (last) => `/page/summaries?version=${encodeURIComponent(last?.version ?? '')}`,
    waitMs: () => EVERY_MS,
  });
  const { histograms = [], texts = [] } = summaries ?? {};
  return (
    <section id="histograms" aria-labelledby="histograms-title" ref={section}>
      <h2 id="histograms-title">Histograms and texts</h2>
      {histograms.length + texts.length === 0 ? (
        <p class="empty">
          {summaries ? (
            <>
              There are none: <code>tf.summary.histogram</code> and <code>tf.summary.text</code> write them.
            </>
          ) : (
            'Loading …'
          )}
        </p>
      ) : (
        <div class="charts">
          {histograms.map((histogram) => (
            <Histogram key={`${histogram.task} ${histogram.name}`} histogram={histogram} />
          ))}
          {texts.map((one) => (
            <Text key={`${one.task} ${one.name}`} one={one} />
          ))}
        </div>
      )}
    </section>
  );
}
