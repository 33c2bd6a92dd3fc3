import { isObject, list, object, parseObject, text } from '../../src/core/json.ts'

/**
 * Converts recorded chat answers (the lines of a stream, or one body) to what chat clients receive: a message or delta
 * with `reasoning` but no `reasoning_content` gets both. No other byte changes.
 */
export const withReasoningContent = (wire: string): string =>
  wire
    .split('\n')
    .map((line) => {
      const body = parseObject(line.replace(/^data: ?/, ''))
      const lacks = list(body?.choices).some((choice) =>
        [object(choice)?.delta, object(choice)?.message].some(
          (messageOrDelta) =>
            isObject(messageOrDelta) && text(messageOrDelta.reasoning) && !text(messageOrDelta.reasoning_content),
        ),
      )
      return lacks ? line.replace(/"reasoning":\s*("(?:[^"\\]|\\.)*")/, '"reasoning_content":$1,$&') : line
    })
    .join('\n')
