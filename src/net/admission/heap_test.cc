#include "ros2s/admission/heap.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "ros2s/base/random.h"

namespace ros2s::admission {
namespace {

struct Element {
    uint64_t key = 0;
    Heap<Element>::Node node{};
};

// A vector in the order of insertion is the model.
void matches_the_model(uint64_t seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::array<Element, 50> elements;
    std::vector<Element*> model;
    Heap<Element> heap;
    for (int step = 0; step < 1000; ++step) {
        Element& element = elements[random.below(elements.size())];
        if (Heap<Element>::has(element.node)) {
            heap.erase(element.node);
            std::erase(model, &element);
        } else {
            element.key = random.below(20);
            heap.insert(element, element.node, element.key);
            model.push_back(&element);
        }
        ASSERT_EQ(heap.empty(), model.empty());
        if (model.empty()) continue;
        const Element* first = model.front();
        for (const Element* const each : model) {
            if (each->key < first->key) first = each;
        }
        ASSERT_EQ(&heap.front(), first);
        ASSERT_EQ(heap.front_key(), first->key);
    }
    while (!heap.empty()) heap.erase(heap.front().node);
}
TEST(AdmissionHeap, LeastAndOldestComesFirst) {
    for (uint64_t seed = 1; seed <= 50 && !testing::Test::HasFailure(); ++seed) {
        matches_the_model(seed);
    }
}

}  // namespace
}  // namespace ros2s::admission
