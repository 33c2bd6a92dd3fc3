/** The tapes of this process. */
import { good } from '../../../core/failure.ts'
import { TAPE } from '../../answers/tape.ts'
import { row } from '../row.ts'

const OFF = { replayed: 0, recorded: 0, misses: 0, failed: 0, last_miss: null, tapes: [] }

export const tapeRows = [
  row({
    method: 'GET',
    path: '/tape',
    summary: 'Show what is answered from tapes',
    about: 'Calls that are recorded or replayed, with `HEADGATE_TAPE`: see the page about cassettes.',
    role: 'operator',
    scope: 'all',
    answer: TAPE,
    example: {
      answer: {
        object: 'tape',
        mode: 'strict',
        folder: '/srv/app/tapes',
        name: 'main',
        normalise: ['dates'],
        replayed: 41,
        recorded: 0,
        misses: 0,
        failed: 0,
        last_miss: null,
        tapes: [{ name: 'main', exchanges: 38, used: 38, bytes: 91_000, problems: [] }],
      },
    },
    handle({ tape }) {
      const found = tape.state()
      if (!found)
        return good({
          body: { object: 'tape' as const, mode: 'off' as const, folder: null, name: null, normalise: [], ...OFF },
        })
      const tapes = found.tapes.map((one) => ({ ...one, problems: [...one.problems] }))
      return good({ body: { object: 'tape' as const, ...found, normalise: [...found.normalise], tapes } })
    },
  }),
]
