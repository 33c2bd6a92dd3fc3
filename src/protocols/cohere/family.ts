/** What a model's name says of what it takes. A name nobody knows is taken for one of the newest kind. */
export type Family = {
  /** It thinks unless told not to, and reads the thoughts of earlier turns. */
  readonly thinks: boolean
  /** `tool_choice` is "only compatible with models Command-r7b and newer" (reference of v2/chat). */
  readonly chooses: boolean
}

const BEFORE_R7B = /^command(?:-light|-nightly|-light-nightly)?$|^command-r(?:-plus)?(?:-\d\d-2024)?$/
const UNTHINKING = /^command-(?:r7b|a-03-2025|a-vision|a-translate)|(?:^|-)aya(?:-|$)/

export const familyOf = (model: string): Family => {
  const name = model.toLowerCase()
  const older = BEFORE_R7B.test(name)
  return { thinks: !older && !UNTHINKING.test(name), chooses: !older }
}
