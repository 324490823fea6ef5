/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/mlx5/card_call.h"

static uint32_t next_number = 0x40; /* of queues, and keys */
static uint32_t next_handle = 1;

uint32_t call_next_number(void)
{
	return next_number++;
}

/* ---- objects ------------------------------------------------------------------------------ */

void object_add(struct object *object, struct context *context, struct list *to)
{
	object->context = context;
	object->handle = next_handle++;
	list_push_back(to, &object->link);
}

struct object *object_find(struct list *in, uint32_t handle)
{
	list_for_each(link, in) {
		struct object *object = container_of(link, struct object, link);

		if (object->handle == handle)
			return object;
	}
	return NULL;
}

/* 0, -EINVAL: there is none, -EBUSY: others refer to it. */
static int object_remove(struct list *in, uint32_t handle, struct object **removed)
{
	struct object *object = object_find(in, handle);

	if (!object)
		return -EINVAL;
	if (object->users)
		return -EBUSY;
	list_remove(&object->link);
	*removed = object;
	return 0;
}

/* ---- answers ------------------------------------------------------------------------------ */

/* The library's part, then the driver's. */
int call_answer(struct call *call, const void *core, size_t core_len, const void *driver,
		size_t driver_len)
{
	size_t at = call->extended ? call->room : core_len;

	if (at + driver_len > sizeof(call->answer))
		return -EINVAL;
	memset(call->answer, 0, sizeof(call->answer));
	memcpy(call->answer, core, core_len < at ? core_len : at);
	if (driver_len)
		memcpy(call->answer + at, driver, driver_len);
	call->len = at + driver_len;
	return 0;
}

/* Copies the argument; a shorter one is filled up with zeros. */
void call_argument(void *to, size_t size, const uint8_t *from, size_t len)
{
	memset(to, 0, size);
	memcpy(to, from, len < size ? len : size);
}

/* Legacy commands: what follows the library's structure of this size is the driver's. */
void call_split(struct call *call, size_t core_size)
{
	if (call->extended || call->core_len <= core_size)
		return;
	call->driver = call->core + core_size;
	call->driver_len = call->core_len - core_size;
	call->core_len = core_size;
}

/* ---- ends --------------------------------------------------------------------------------- */

static void end_region(struct object *object)
{
	struct region *region = (void *)object;

	region->pd->object.users--;
	free(region);
}

static void end_cq(struct object *object)
{
	struct cq *cq = (void *)object;

	if (cq->channel)
		cq->channel->object.users--;
	free(cq);
}

static void end_qp(struct object *object)
{
	struct qp *qp = (void *)object;

	queue_drop_bells(qp);
	qp->pd->object.users--;
	qp->send_cq->object.users--;
	qp->recv_cq->object.users--;
	object->context->bfreg_used[qp->bfreg] = false;
	free(qp->notes);
	free(qp);
}

static void end_rule(struct object *object)
{
	struct rule *rule = (void *)object;

	rule->qp->object.users--;
	free(rule);
}

static void end_channel(struct object *object)
{
	struct channel *channel = (void *)object;

	close(channel->fd);
	close(channel->peer);
	free(channel);
}

static void end_pd(struct object *object)
{
	free(object);
}

/* The handle stands first, behind the address of the answer where there is one. */
static int destroy(struct call *call, struct list *in, void (*end)(struct object *))
{
	struct ib_uverbs_destroy_cq_resp core = {0};
	size_t at = call->number == IB_USER_VERBS_CMD_DEALLOC_PD ||
				    call->number == IB_USER_VERBS_CMD_DEREG_MR
			    ? 0
		    : call->extended ? 4
				     : 8;
	struct object *object = NULL;
	uint32_t handle;
	int rc;

	if (call->core_len < at + sizeof(handle))
		return -EINVAL;
	memcpy(&handle, call->core + at, sizeof(handle));
	rc = object_remove(in, handle, &object);
	if (rc)
		return rc;
	/* The library waits until the program has acknowledged so many. */
	if (call->number == IB_USER_VERBS_CMD_DESTROY_CQ)
		core.comp_events_reported = cq_events_read((void *)object);
	if (call->number == IB_USER_VERBS_CMD_DESTROY_QP)
		core.comp_events_reported = ((struct qp *)(void *)object)->events;
	end(object);
	return at == 8 ? call_answer(call, &core, sizeof(core), NULL, 0) : 0;
}

/* ---- dispatch ----------------------------------------------------------------------------- */

static int serve(struct call *call)
{
	struct context *c = call->context;

	switch (call->number) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		return call_get_context(call);
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		return call_query_device(call);
	case IB_USER_VERBS_CMD_QUERY_PORT:
		return call_query_port(call);
	case IB_USER_VERBS_CMD_ALLOC_PD:
		return call_alloc_pd(call);
	case IB_USER_VERBS_CMD_DEALLOC_PD:
		return destroy(call, &c->pds, end_pd);
	case IB_USER_VERBS_CMD_REG_MR:
		return call_reg_mr(call);
	case IB_USER_VERBS_CMD_DEREG_MR:
		return destroy(call, &c->regions, end_region);
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		return call_create_channel(call);
	case IB_USER_VERBS_CMD_CREATE_CQ:
		return call_create_cq(call);
	case IB_USER_VERBS_EX_CMD_MODIFY_CQ:
		return call_modify_cq(call);
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		return destroy(call, &c->cqs, end_cq);
	case IB_USER_VERBS_CMD_CREATE_QP:
		return call_create_qp(call);
	case IB_USER_VERBS_CMD_MODIFY_QP:
		return call_modify_qp(call);
	case IB_USER_VERBS_CMD_DESTROY_QP:
		return destroy(call, &c->qps, end_qp);
	case IB_USER_VERBS_EX_CMD_CREATE_FLOW:
		return call_create_flow(call);
	case IB_USER_VERBS_EX_CMD_DESTROY_FLOW:
		return destroy(call, &c->flows, end_rule);
	default:
		return -EOPNOTSUPP;
	}
}

/* Takes the command apart.  False: it is shorter than it says. */
static bool parse(struct call *call, const uint8_t *command, size_t len)
{
	struct ib_uverbs_cmd_hdr head;
	struct ib_uverbs_ex_cmd_hdr ex;
	size_t at = sizeof(head);

	if (len < sizeof(head))
		return false;
	memcpy(&head, command, sizeof(head));
	call->number = head.command & IB_USER_VERBS_CMD_COMMAND_MASK;
	call->extended = head.command & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	call->core = command + at;
	call->core_len = len - at;
	if (!call->extended)
		return true;
	if (len < at + sizeof(ex))
		return false;
	memcpy(&ex, command + at, sizeof(ex));
	at += sizeof(ex);
	call->room = (size_t)head.out_words * 8;
	call->core = command + at;
	call->core_len = (size_t)head.in_words * 8;
	call->driver = call->core + call->core_len;
	call->driver_len = (size_t)ex.provider_in_words * 8;
	return call->core_len + call->driver_len <= len - at && call->room <= sizeof(call->answer);
}

static void reply(struct context *context, const struct card_reply *head, const void *body, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov[2] = {{(void *)(uintptr_t)head, sizeof(*head)},
			       {(void *)(uintptr_t)body, body ? head->len : 0}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	if (fd >= 0) {
		struct cmsghdr *cmsg;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	}
	sendmsg(context->conn, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void serve_command(struct context *context, const uint8_t *command, size_t len)
{
	struct call call = {.context = context, .fd = -1};
	struct card_reply head = {.rc = -EINVAL};

	if (context->gone)
		head.rc = -EIO;
	else if (parse(&call, command, len))
		head.rc = serve(&call);
	head.len = head.rc ? 0 : (uint32_t)call.len;
	reply(context, &head, call.answer, call.fd);
	if (call.fd >= 0 && call.fd != context->async_peer)
		close(call.fd);
}

/*
 * A page of doorbell registers, or of the clock: the offset has the kind in bits 8 to 15, the rest
 * is the index.
 */
static void serve_map(struct context *context, const struct card_request *request)
{
	uint64_t page = request->offset / UAR_SIZE;
	unsigned kind = page >> 8 & 0xff, index = (unsigned)(page & 0xff) | (page >> 16 & 0xff)
										    << 8;
	struct card_reply head = {.rc = -EINVAL};
	int fd = context->uar_fd;

	if (kind == MLX5_IB_MMAP_ALLOC_WC)
		index += UAR_STATIC;
	if ((kind <= MLX5_IB_MMAP_NC_PAGE || kind == MLX5_IB_MMAP_ALLOC_WC) && index < UAR_PAGES &&
	    request->len == UAR_SIZE && (kind == MLX5_IB_MMAP_ALLOC_WC) == (index >= UAR_STATIC)) {
		head.rc = 0;
		head.offset = (uint64_t)index * UAR_SIZE;
		context->uar_used[index] = true;
	} else if ((kind == MLX5_IB_MMAP_CORE_CLOCK || kind == MLX5_IB_MMAP_CLOCK_INFO) && !index &&
		   clock_khz() && request->len == UAR_SIZE) {
		head.rc = 0;
		head.offset = kind == MLX5_IB_MMAP_CORE_CLOCK ? 0 : UAR_SIZE;
		fd = clock_fd();
	}
	reply(context, &head, NULL, head.rc ? -1 : fd);
}

bool command_serve(struct context *context)
{
	uint8_t message[CARD_MESSAGE];
	struct card_request request;
	ssize_t n = recv(context->conn, message, sizeof(message), MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n < (ssize_t)sizeof(request))
		return false;
	memcpy(&request, message, sizeof(request));
	if (request.call == CARD_MAP)
		serve_map(context, &request);
	else
		serve_command(context, message + sizeof(request), (size_t)n - sizeof(request));
	return true;
}

static void end_all(struct list *objects, void (*end)(struct object *))
{
	while (!list_empty(objects)) {
		struct object *object = container_of(objects->next, struct object, link);

		list_remove(&object->link);
		end(object);
	}
}

void context_free(struct context *context)
{
	end_all(&context->flows, end_rule);
	end_all(&context->qps, end_qp);
	end_all(&context->cqs, end_cq);
	end_all(&context->channels, end_channel);
	end_all(&context->regions, end_region);
	end_all(&context->pds, end_pd);
	list_remove(&context->link);
	munmap(context->uar, UAR_PAGES * UAR_SIZE);
	close(context->uar_fd);
	close(context->async_fd);
	close(context->async_peer);
	close(context->conn);
	free(context);
}
