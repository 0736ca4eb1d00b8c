/** Reacts to an error by its code. */
import { isShoalError } from 'shoal';
import { loadSavedModel } from 'shoal/saved-model';

try {
  await loadSavedModel('export/none');
} catch (error) {
  if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
  console.log(`${error.code}: ${error.hint}`);
}
