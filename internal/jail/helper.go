package jail

import "encoding/json"

// A Handler carries out a request in a Helper. The files came with the request. The reply
// is sent as JSON, with the files to give.
type Handler func(request json.RawMessage, files []int) (reply any, give []int)
