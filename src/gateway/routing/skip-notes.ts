/** The skipped targets of one request, for its trace: each once per reason, and an unfit model once for all its keys. */
import type { SkippedTarget } from '../../core/skipped-target.ts'
import { namesOf } from '../../core/target.ts'
import type { TraceEvent } from '../../core/trace.ts'
import type { Skip } from './choose-target.ts'

/** Maximum skipped targets listed for one request; the rest are counted. The trail must fit into 1,024 characters. */
const MAX_SKIPPED = 12

/** Notes skipped targets in the trace of one request. */
export class SkipNotes {
  readonly #note: (event: TraceEvent) => void
  /** Reason and name of each skip that has been noted; null before the first. */
  #noted: Set<string> | null = null

  constructor(note: (event: TraceEvent) => void) {
    this.#note = note
  }

  /** Notes the targets that were not noted before for the same reason. */
  add(skips: readonly Skip[]): void {
    if (skips.length === 0) return
    this.#noted ??= new Set()
    const targets: SkippedTarget[] = []
    let more = 0
    for (const { why, target } of skips) {
      const { model, deployment } = namesOf(target)
      const id = `${why} ${why === 'unfit' || why === 'window' ? model : deployment}`
      if (this.#noted.has(id)) continue
      this.#noted.add(id)
      const { candidate, key } = target
      if (this.#noted.size > MAX_SKIPPED) more++
      else targets.push({ provider: candidate.instance.id, model: candidate.model, key: key.id, why })
    }
    if (targets.length > 0 || more > 0) this.#note({ type: 'skipped', targets, more })
  }
}
