/** IDs of elements, unique in the document. Preact's own are unique in one of its roots only, and the frame has several. */
import { useState } from 'preact/hooks'

let last = 0

/** An ID that stays as long as the component. */
export const useId = (): string => useState(() => `id-${++last}`)[0]
