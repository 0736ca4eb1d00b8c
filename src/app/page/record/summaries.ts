/** The histograms and texts of summaries in bounded memory: of a histogram at most 48 steps, each in 24 parts. */
import type { HistogramProto, Summary_Value } from '../../../base/proto/generated/event_pb.js';
import type { TensorProto } from '../../../base/proto/generated/graph_pb.js';
import type { HistogramColumn, PageSummaries, PageText } from '../state.js';

const PARTS = 24;
const MOST_COLUMNS = 48;
/** Further tags are in the event files. */
const MOST_HISTOGRAMS = 24;
const MOST_TEXTS = 24;
const LONGEST_TEXT = 4000;

interface Moment {
  readonly at: number;
  readonly step: number;
}

export class SummaryMemory {
  readonly #histograms = new Map<string, Columns>();
  readonly #texts = new Map<string, Omit<PageText, 'task'>>();
  #changes = 0;

  /** Takes a value of a summary, if it is a histogram or a text. */
  add({ tag, value, metadata }: Summary_Value, moment: Moment): void {
    if (value.case === 'histo') this.#addHistogram(tag, value.value, moment);
    // The writer of a text names its plugin only once; no other value of the page is a tensor of strings.
    else if (value.case === 'tensor' && (metadata?.pluginData?.pluginName ?? 'text') === 'text')
      this.#addText(tag, textOf(value.value), moment);
  }

  #addHistogram(tag: string, histogram: HistogramProto, moment: Moment): void {
    const column = columnOf(histogram, moment);
    let columns = this.#histograms.get(tag);
    if (column === undefined || (!columns && this.#histograms.size >= MOST_HISTOGRAMS)) return;
    if (!columns) {
      columns = new Columns();
      this.#histograms.set(tag, columns);
    }
    columns.add(column);
    this.#changes += 1;
  }

  #addText(tag: string, text: string | undefined, { at, step }: Moment): void {
    if (text === undefined || (!this.#texts.has(tag) && this.#texts.size >= MOST_TEXTS)) return;
    this.#texts.set(tag, { name: tag, at, step, text });
    this.#changes += 1;
  }

  state(task: string): PageSummaries {
    return {
      histograms: [...this.#histograms].map(([name, { all }]) => ({ name, task, columns: all })),
      texts: [...this.#texts.values()].map((text) => ({ ...text, task })),
      version: String(this.#changes),
    };
  }
}

/** When there are too many columns, every other one goes, and from then on every other one is kept. The newest stays. */
class Columns {
  #columns: HistogramColumn[] = [];
  #every = 1;
  #count = 0;

  get all(): readonly HistogramColumn[] {
    return this.#columns;
  }

  add(column: HistogramColumn): void {
    const isBetween = (this.#count - 1) % this.#every !== 0;
    if (this.#count > 0 && isBetween) this.#columns.pop();
    this.#columns.push(column);
    this.#count += 1;
    if (this.#columns.length <= MOST_COLUMNS) return;
    this.#columns = this.#columns.filter((_, i) => i % 2 === 0);
    this.#every *= 2;
  }
}

/** The counts of a histogram in equally wide parts between its least and its largest value. Undefined: it has none. */
function columnOf(histogram: HistogramProto, { at, step }: Moment): HistogramColumn | undefined {
  const { min, max, num, sum, bucket, bucketLimit } = histogram;
  const isUsable = [min, max, num, sum].every(Number.isFinite) && num > 0 && min <= max;
  if (!isUsable) return undefined;
  const counts = new Array<number>(PARTS).fill(0);
  const width = (max - min) / PARTS;
  bucket.forEach((count, i) => {
    if (count <= 0) return;
    const from = Math.max(min, i === 0 ? min : bucketLimit[i - 1]!);
    const to = Math.min(max, bucketLimit[i] ?? max);
    if (width === 0 || to <= from) {
      const part = width === 0 ? 0 : Math.floor((Math.min(from, max) - min) / width);
      counts[Math.min(PARTS - 1, Math.max(0, part))]! += count;
      return;
    }
    const [first, last] = [Math.floor((from - min) / width), Math.ceil((to - min) / width)];
    for (let part = Math.max(0, first); part < Math.min(PARTS, last); part++) {
      const inside = Math.min(to, min + (part + 1) * width) - Math.max(from, min + part * width);
      counts[part]! += (count * Math.max(0, inside)) / (to - from);
    }
  });
  const digits = (value: number) => Number(value.toPrecision(5));
  return {
    ...{ at: Math.round(at), step, least: digits(min), most: digits(max), mean: digits(sum / num) },
    parts: counts.map((count) => Math.round((count * 1000) / num)),
  };
}

const decoder = new TextDecoder();

/** The strings of a tensor; undefined if it has others elements. */
function textOf({ stringVal }: TensorProto): string | undefined {
  if (stringVal.length === 0) return undefined;
  const text = stringVal.map((bytes) => decoder.decode(bytes)).join('\n');
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)} …` : text;
}
