/**
 * Whether TensorFlow's request ids can be repaired (request-ids.ts), determined from the library files without loading
 * them.
 */
import { defines, type ElfImage, findJumpSlot } from '../../../tensorflow/native/library/elf.js';
import { withImageFile } from '../../../tensorflow/native/library/image-file.js';

/** The generator that the library uses, seeded with 32 bits per thread. */
export const WEAK = '_ZN3tsl6random16ThreadLocalNew64Ev';
/** A well-seeded generator with the same signature. */
export const STRONG = '_ZN3tsl6random5New64Ev';
/** The function that generates ids, used to verify the repair. */
export const GET_ID = '_ZN10tensorflow18GetUniqueRequestIdEv';

export type RequestIdSurvey =
  | { readonly repairable: true }
  | { readonly repairable: false; readonly why: string };

export interface LibraryFiles {
  readonly ccPath: string;
  readonly frameworkPath: string;
}

export function surveyRequestIds(
  { ccPath, frameworkPath }: LibraryFiles,
  platform: NodeJS.Platform = process.platform,
): RequestIdSurvey {
  if (platform !== 'linux') return { repairable: false, why: `not supported on ${platform}` };
  if (!withImageFile(frameworkPath, (image) => defines(image, STRONG)))
    return { repairable: false, why: 'the library has no well-seeded generator' };
  return withImageFile(ccPath, surveyCaller);
}

function surveyCaller(image: ElfImage): RequestIdSurvey {
  const { why } = findJumpSlot(image, WEAK);
  if (why !== undefined) return { repairable: false, why };
  if (!defines(image, GET_ID))
    return { repairable: false, why: 'the library does not export the id function' };
  return { repairable: true };
}
