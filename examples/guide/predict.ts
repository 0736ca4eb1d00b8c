/** Loads an export and calls it. */
import { loadSavedModel } from 'shoal/saved-model';

const model = await loadSavedModel('export/1'); // from Shoal, TensorFlow 1, TensorFlow 2 or Keras
const { y } = await model.signatures.serving_default!({ x: [0, 0.5, 1] });
console.log(y);
await model.close();
