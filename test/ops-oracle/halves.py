"""Sixteen-bit floats in numpy: every bit pattern as a number, and numbers as bit patterns."""

import base64
import json
import sys

import ml_dtypes
import numpy as np

request = json.load(sys.stdin)
numbers = np.frombuffer(base64.b64decode(request['numbers']), dtype=np.float64)
patterns = np.arange(65536, dtype=np.uint16)


def encode(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


with np.errstate(all='ignore'):
    print(json.dumps({
        name: {
            'values': encode(patterns.view(dtype).astype(np.float64)),
            'words': encode(numbers.astype(np.float32).astype(dtype).view(np.uint16)
                            if name == 'bfloat16' else numbers.astype(dtype).view(np.uint16)),
        }
        for name, dtype in (('float16', np.float16), ('bfloat16', ml_dtypes.bfloat16))
    }))
