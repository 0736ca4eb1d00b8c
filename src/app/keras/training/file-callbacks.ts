/** Callbacks that write files: checkpoints, tables and event files. */
import { appendFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { invalid } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import {
  checkCallback,
  type FitCallback,
  type Logs,
  MONITOR_NAMES,
  Monitor,
  type MonitorOptions,
} from './callback.js';

export interface ModelCheckpointOptions extends MonitorOptions {
  /** Whether only epochs are saved that are better than all earlier ones. Default: false. */
  readonly saveBestOnly?: boolean;
  /** Whether only the weights are saved, as by `saveWeights`; else all that `loadModel` needs. Default: false. */
  readonly saveWeightsOnly?: boolean;
}

/**
 * Saves the model after each epoch. In the path `{epoch}` is the number of the epoch, counted from 1, and `{val_loss}` a
 * value of it. A model is never saved over another: its path must contain `{epoch}`, unless only weights are saved.
 */
export function modelCheckpoint(path: string, options: ModelCheckpointOptions = {}): FitCallback {
  checkCallback('modelCheckpoint', options, { ...MONITOR_NAMES, saveBestOnly: true, saveWeightsOnly: true });
  const { saveBestOnly = false, saveWeightsOnly = false } = options;
  if (!saveWeightsOnly && !path.includes('{epoch}'))
    throw invalid(`modelCheckpoint('${path}') would save every model to the same directory`, {
      hint: "Write '{epoch}' into the path, or set saveWeightsOnly, whose files are replaced.",
    });
  const monitor = new Monitor(options);
  return {
    inJob: 'train: { checkpoint } and evaluate: { best }',
    onTrainBegin: () => monitor.reset(),
    onEpochEnd: async (epoch, logs, control) => {
      if (saveBestOnly && !monitor.improves(logs)) return;
      const target = filled(path, epoch, logs);
      if (saveWeightsOnly) await control.model.saveWeights(target);
      else await control.model.save(target);
    },
  };
}

const filled = (path: string, epoch: number, logs: Logs): string =>
  path.replace(/\{([\w]+)\}/g, (_, name: string) => {
    if (name === 'epoch') return String(epoch + 1);
    const value = logs[name];
    if (value !== undefined) return value.toFixed(4);
    throw invalid(
      `modelCheckpoint: there is no value '${name}' for the path; there are ${Object.keys(logs).join(', ')}`,
    );
  });

export interface CSVLoggerOptions {
  /** Default: a comma. */
  readonly separator?: string;
  /** Whether an existing file is continued. Default: false. */
  readonly append?: boolean;
}

/** Writes a line of the values of each epoch. */
export function csvLogger(file: string, options: CSVLoggerOptions = {}): FitCallback {
  checkCallback('csvLogger', options, { separator: true, append: true });
  const { separator = ',', append = false } = options;
  let columns: readonly string[] | undefined;
  return {
    inJob: 'shoal run --json, whose events have the values',
    onTrainBegin: async () => {
      columns = undefined;
      await makeDirectory(dirname(file));
      if (!append) await writeFile(file, '');
    },
    onEpochEnd: async (epoch, logs) => {
      const isFirst = columns === undefined;
      columns ??= Object.keys(logs);
      const line = (cells: readonly unknown[]) => `${cells.join(separator)}\n`;
      const head = isFirst && !append ? line(['epoch', ...columns]) : '';
      await appendFile(file, head + line([epoch, ...columns.map((name) => logs[name] ?? '')]));
    },
  };
}

/** Writes the values of each epoch as event files for TensorBoard, to `train` and `validation` in the directory. */
export function tensorBoard(directory: string): FitCallback {
  const writers = new Map<string, FileWriter>();
  const close = async () => {
    for (const writer of writers.values()) await writer.close();
    writers.clear();
  };
  const write = async (part: string, tag: string, value: number, step: number) => {
    const own = writers.get(part) ?? new FileWriter(join(directory, part));
    writers.set(part, own);
    own.addScalar(tag, value, step);
    await own.flush();
  };
  return {
    inJob: 'train: { summaries }',
    onTrainBegin: close,
    onEpochEnd: async (epoch, logs, control) => {
      for (const [name, value] of Object.entries(logs)) {
        const isValidation = name.startsWith('val_');
        const tag = `epoch_${isValidation ? name.slice('val_'.length) : name}`;
        await write(isValidation ? 'validation' : 'train', tag, value, epoch);
      }
      const rate = await control.learningRate().catch(() => undefined);
      if (rate !== undefined) await write('train', 'epoch_learning_rate', rate, epoch);
    },
    onTrainEnd: close,
  };
}
