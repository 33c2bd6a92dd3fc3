/** All fuzz targets: the parsers of untrusted input, each with a property that must hold. */
import type { Target } from './engine.ts'
import { ANSWER_READER } from './targets/answer-reader.ts'
import { BREAKER } from './targets/breaker.ts'
import { CODECS } from './targets/codecs.ts'
import { PORTS } from './targets/port.ts'
import { READERS } from './targets/readers.ts'
import { REQUEST_READER } from './targets/request-reader.ts'
import { TEXTS } from './targets/texts.ts'

export const TARGETS: readonly Target[] = [
  ...READERS,
  ANSWER_READER,
  ...TEXTS,
  ...CODECS,
  BREAKER,
  REQUEST_READER,
  ...PORTS,
]
