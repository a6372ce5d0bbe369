package desk

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/golem-forge/golem/internal/decide/approval"
	"github.com/golem-forge/golem/internal/hub"
	"github.com/golem-forge/golem/internal/people/inbox"
	"github.com/golem-forge/golem/internal/people/visible"
	"github.com/golem-forge/golem/sandbox"
)

// hubPatience is how long a page waits for a hub that it asks itself.
const hubPatience = 10 * time.Second

// hubCallPage returns the page of a call of a job.
func hubCallPage(job, id string) string { return "job/" + job + "/call/" + id }

// hubPages serves the pages of the hub. It is nil if there is none.
type hubPages struct {
	*inbox.HubWatcher
	desk *server
}

// addTo adds the pages of the hub to those of the desk.
func (h *hubPages) addTo(add func(pattern string, h handler)) {
	h.OnChange, h.IsWatched = h.desk.live.notify, h.desk.live.isHeard
	add("GET /jobs", h.showJobs)
	add("GET /jobs/list", h.showJobList)
	add("GET /jobs/problem", h.showProblem)
	add("GET /job/{job}", h.showJob)
	add("POST /job/{job}", h.changeJob)
	add("GET /job/{job}/state", h.showJobState)
	add("GET /job/{job}/log", h.showJobLog)
	add("GET /job/{job}/call/{id}", h.desk.showCall)
	add("GET /job/{job}/call/{id}/file/{index}", h.desk.showFile)
	add("GET /job/{job}/call/{id}/state", h.desk.showState)
	add("POST /job/{job}/call/{id}", h.desk.decide)
}

// addItems adds what waits at the hub to a list.
func (h *hubPages) addItems(items []inbox.Item) []inbox.Item {
	if h == nil {
		return items
	}
	return inbox.MergeItems(items, h.State().Items)
}

// readCall returns a call that waits at the hub.
func (h *hubPages) readCall(ctx context.Context, job, id string) (waitingCall, error) {
	c, err := h.Client()
	if err != nil {
		return waitingCall{}, err
	}
	limited, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	one, request, err := inbox.ReadHubCall(limited, c, h.desk.options, job, id)
	if err != nil {
		return waitingCall{}, err
	}
	call := waitingCall{at: hubCallPage(job, id), program: inbox.HubKey(c), id: id, job: one.Job.ID, place: "job " + one.Job.ID + " of " + visible.Line(one.Job.Name, maxNote), request: request, version: one.Hash}
	if err := inbox.CheckHubApprover(limited, c, one); err != nil {
		call.blocked = visible.Text(err.Error())
	}
	call.answer = func(reply approval.Reply) error {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), hubPatience) // a closed tab does not lose the answer of the hub
		defer cancel()
		err := inbox.DecideHubCall(limited, c, h.desk.options, one, request, reply, h.desk.secrets)
		if err == nil {
			h.Settle(job, id)
		}
		return err
	}
	return call, nil
}

// A hubProblem says why a page has no news of the hub.
type hubProblem struct {
	Text     string // "" if the hub answers
	Waiting  bool   // the hub has not been asked yet
	Answered time.Time
}

func (h *hubPages) problem() hubProblem {
	if h == nil {
		return hubProblem{}
	}
	state := h.State()
	return hubProblem{Text: state.Problem, Waiting: state.Problem == "" && state.Answered.IsZero(), Answered: state.Answered}
}

// showProblem shows only whether the hub answers, for a page that is open.
func (h *hubPages) showProblem(w http.ResponseWriter, _ *http.Request) error {
	return h.desk.render(w, http.StatusOK, "hub-said", view{Data: h.problem()})
}

// A jobsView is the list of the jobs of the hub.
type jobsView struct {
	inbox.HubState
	Hub hubProblem
}

func (h *hubPages) newJobsView() jobsView { return jobsView{h.State(), h.problem()} }

// showJobs shows the jobs of the hub as it listed them last.
func (h *hubPages) showJobs(w http.ResponseWriter, _ *http.Request) error {
	return h.desk.render(w, http.StatusOK, "jobs", view{Title: "Jobs", Data: h.newJobsView()})
}

// showJobList shows only the list of jobs, for a page that is open.
func (h *hubPages) showJobList(w http.ResponseWriter, _ *http.Request) error {
	return h.desk.render(w, http.StatusOK, "job-list", view{Data: h.newJobsView()})
}

// A jobView is a job of the hub on a page.
type jobView struct {
	inbox.Job
	Nonce  string
	Done   string // what the last page did
	Hub    hubProblem
	Open   []inbox.JobRequest // the calls that wait
	Events []inbox.Event
	Next   uint64 // the number of the next event
}

func newJobView(j inbox.Job, nonce string) jobView {
	v := jobView{Job: j, Nonce: nonce}
	for _, r := range j.Waiting {
		if !r.Decided && !j.IsOver() {
			v.Open = append(v.Open, r)
		}
	}
	return v
}

// CanCancel reports whether the user can stop the job.
func (v jobView) CanCancel() bool { return v.Own && !v.IsOver() }

// CanRetry reports whether the user can run the job again.
func (v jobView) CanRetry() bool {
	return v.Own && slices.Contains([]hub.State{hub.Failed, hub.Cancelled, hub.InDoubt}, v.State)
}

// CanFetch reports whether the user can bring the changes of the job here.
func (v jobView) CanFetch() bool {
	return v.Own && (v.IsOver() || v.State == hub.Waiting || v.State == hub.InDoubt)
}

// ask calls do with the connection to the hub and a context that ends after a while.
func (h *hubPages) ask(r *http.Request, do func(ctx context.Context, c *hub.Client) error) error {
	c, err := h.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), hubPatience)
	defer cancel()
	return inbox.HubError(do(ctx, c))
}

// showJob shows a job. If the hub does not answer, the page has what it said last.
func (h *hubPages) showJob(w http.ResponseWriter, r *http.Request) error {
	id, nonce := r.PathValue("job"), h.desk.addControlPage()
	var v jobView
	err := h.ask(r, func(ctx context.Context, c *hub.Client) error {
		j, err := inbox.ReadJob(ctx, c, id)
		if v = newJobView(j, nonce); err == nil {
			v.Events, v.Next, err = inbox.ReadJobEvents(ctx, c, j.ID, 1)
		}
		return err
	})
	if sandbox.CodeOf(err) == sandbox.ErrInternal {
		known := h.State().Jobs
		if i := slices.IndexFunc(known, func(j inbox.Job) bool { return j.ID == id }); i >= 0 {
			v, err = newJobView(known[i], nonce), nil
			v.Next = 1
		}
	}
	if err != nil {
		return err
	}
	v.Hub, v.Done = h.problem(), h.desk.actions.takeNote(r.URL.Query().Get("done"))
	return h.desk.render(w, http.StatusOK, "job", view{Title: "Job " + v.ID, Data: v})
}

// showJobState shows only the state of a job, for a page that is open.
func (h *hubPages) showJobState(w http.ResponseWriter, r *http.Request) error {
	var v jobView
	err := h.ask(r, func(ctx context.Context, c *hub.Client) error {
		j, err := inbox.ReadJob(ctx, c, r.PathValue("job"))
		v = newJobView(j, r.URL.Query().Get("page"))
		return err
	})
	if err != nil {
		return keepPage(w) // another part of it says why
	}
	return h.desk.render(w, http.StatusOK, "job-state", view{Data: v})
}

// showJobLog shows the events of a job that a page does not have yet.
func (h *hubPages) showJobLog(w http.ResponseWriter, r *http.Request) error {
	from, err := strconv.ParseUint(r.URL.Query().Get("from"), 10, 64)
	v := jobView{Job: inbox.Job{ID: r.PathValue("job")}}
	if err == nil {
		err = h.ask(r, func(ctx context.Context, c *hub.Client) (err error) {
			v.Events, v.Next, err = inbox.ReadJobEvents(ctx, c, v.ID, from)
			return err
		})
	}
	if err != nil || len(v.Events) == 0 && v.Next == from {
		return keepPage(w)
	}
	return h.desk.render(w, http.StatusOK, "job-events", view{Data: v})
}

// changeJob cancels, retries or fetches a job.
func (h *hubPages) changeJob(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("job")
	if _, err := h.desk.pages.useForm(r, "job", "", controlPage); err != nil {
		return err
	}
	back, note := "job/"+id, ""
	confirm := false
	err := h.ask(r, func(ctx context.Context, c *hub.Client) error {
		switch action := r.PostForm.Get("action"); action {
		case "cancel":
			note = "golem cancels job " + id + "; a job that runs stops after its current call"
			return c.Cancel(ctx, id)
		case "retry":
			j, err := inbox.ReadJob(ctx, c, id)
			if err != nil {
				return err
			}
			if confirm = j.State == hub.InDoubt && r.PostForm.Get("confirm") == ""; confirm {
				return nil
			}
			note = "job " + id + " is queued again"
			return c.Retry(ctx, id)
		case "fetch":
			key, one, err := h.Fetch(ctx, c, id)
			if back, note = "session/"+key+"/"+one.Session, "job "+id+" is session "+one.Session; len(one.Dropped) > 0 {
				note += "; warning: the node changed " + visible.Count(len(one.Dropped), "file") + " where the job may not write, which golem did not bring here; ask the administrator of the hub to look at the node"
			}
			return err
		}
		return &sandbox.Error{Op: "job", Path: id, Code: sandbox.ErrInvalid, Hint: "the action is cancel, retry or fetch"}
	})
	switch {
	case err != nil:
		return err
	case confirm:
		return h.desk.render(w, http.StatusOK, "job-retry", view{Title: "Make the call in doubt again?", Data: jobView{Job: inbox.Job{ID: id}, Nonce: h.desk.addControlPage()}})
	}
	h.Look()
	h.desk.live.notify()
	return h.desk.guard.redirect(w, r, back+"?done="+h.desk.actions.addNote(note))
}
